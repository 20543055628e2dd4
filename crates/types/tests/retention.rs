//! Which checkpoints a policy keeps: the protections hold, the seeds' numbers hold, and neither
//! holidays nor clocks delete anything.

#![allow(clippy::unwrap_used, reason = "a test may fail loudly")]

use jiff::tz::TimeZone;
use proptest::prelude::*;
use rappel_types::retention::{
    Candidate, Decision, Keep, Policy, Preset, Reason, Rule, Rules, decide, next_deletion,
};
use rappel_types::{CheckpointId, Timestamp, Trigger};

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn id(sequence: u64) -> CheckpointId {
    format!("chk_20260101_000000_{sequence:04}").parse().unwrap()
}

fn made(sequence: u64, created_at: Timestamp, trigger: Trigger) -> Candidate {
    Candidate {
        id: id(sequence),
        sequence,
        created_at,
        trigger,
        session: None,
        holds_files: true,
        pinned: false,
        tags: Vec::new(),
        undoable: false,
        session_holds_until: None,
    }
}

/// `count` checkpoints of one trigger, `step` milliseconds apart, the newest right before `now`.
fn series(now: Timestamp, count: u64, step: i64, trigger: Trigger) -> Vec<Candidate> {
    let moment = |n: u64| Timestamp::from_millis(now.as_millis() - (count - n) as i64 * step);
    (1..=count).map(|n| made(n, moment(n), trigger)).collect()
}

fn utc(candidates: &[Candidate], policy: &Policy, now: Timestamp) -> Vec<Decision> {
    decide(candidates, policy, now, &TimeZone::UTC)
}

fn kept(decisions: &[Decision]) -> usize {
    decisions.iter().filter(|decision| decision.keep).count()
}

#[test]
fn manual_checkpoints_stay_unless_a_policy_names_them() {
    let now = at("2026-06-01T12:00:00Z");
    let all = series(now, 1000, DAY, Trigger::Manual);
    assert_eq!(kept(&utc(&all, &Policy::default(), now)), 1000);
    let included = Rules { include_manual: true, ..Rules::default() };
    assert!(kept(&utc(&all, &Policy::Rules(included), now)) < 10);
    let mut named = Rules::default();
    let two = Rule { keep: Keep::Forever, max: Some(2), hourly_after: None, daily_after: None };
    named.triggers.insert(Trigger::Manual, two);
    assert_eq!(kept(&utc(&all, &Policy::Rules(named), now)), 2);
}

#[test]
fn the_seeds_numbers_hold_in_their_presets() {
    let now = at("2026-06-01T12:00:00Z");
    let count =
        |preset, candidates: &[Candidate]| kept(&utc(candidates, &Policy::Preset(preset), now));
    // Lugh: merges 30 days and 50, ends of days 7 and 7, before operations 24 hours and 10.
    assert_eq!(count(Preset::Lugh, &series(now, 100, HOUR, Trigger::PrMerged)), 50);
    assert_eq!(count(Preset::Lugh, &series(now, 100, DAY, Trigger::PrMerged)), 31);
    assert_eq!(count(Preset::Lugh, &series(now, 30, DAY, Trigger::EndOfDay)), 7);
    assert_eq!(count(Preset::Lugh, &series(now, 30, HOUR, Trigger::PreOperation)), 10);
    assert_eq!(count(Preset::Lugh, &series(now, 30, 10 * HOUR, Trigger::PreOperation)), 3);
    assert_eq!(count(Preset::Lugh, &series(now, 30, 100 * DAY, Trigger::Manual)), 30);
    // Loki: the newest 50, whatever they are.
    assert_eq!(count(Preset::Loki, &series(now, 80, MINUTE, Trigger::Manual)), 50);
    // Forge: an hour (11:01 to 12:00), then one for each clock hour (11:00, 10:59 and so on).
    let forge = series(now, 360, MINUTE, Trigger::Scheduled);
    assert_eq!(count(Preset::Forge, &forge), 60 + 6);
    assert_eq!(count(Preset::Forge, &series(now, 80, MINUTE, Trigger::Manual)), 80);
    // CAF: the newest 100 of each session.
    let mut caf = series(now, 300, MINUTE, Trigger::ToolExecuted);
    for (place, candidate) in caf.iter_mut().enumerate() {
        candidate.session = Some(if place < 150 { "a".into() } else { "b".into() });
    }
    assert_eq!(count(Preset::Caf, &caf), 200);
}

#[test]
fn forge_keeps_significant_checkpoints() {
    let now = at("2026-06-01T12:00:00Z");
    let mut all = series(now, 600, MINUTE, Trigger::HypothesisStatusChange);
    for place in [3, 4, 5] {
        all[place].tags = vec!["auto".into(), "hypothesis_confirmed".into()];
    }
    let decisions = utc(&all, &Policy::Preset(Preset::Forge), now);
    assert!(decisions[3..6].iter().all(|decision| decision.reason == Reason::Significant));
}

#[test]
fn the_last_and_the_days_keep_their_union() {
    let now = at("2026-06-01T12:00:00Z");
    let all = series(now, 40, 12 * HOUR, Trigger::Scheduled);
    let keep = |last, days: Option<i64>| {
        let within = days.map(|days| (days * DAY) as u64);
        kept(&utc(&all, &Policy::Newest { last, within, include_manual: false }, now))
    };
    assert_eq!(keep(Some(5), None), 5);
    assert_eq!(keep(None, Some(7)), 15);
    assert_eq!(keep(Some(5), Some(7)), 15);
    assert_eq!(keep(Some(30), Some(7)), 30);
}

#[test]
fn older_ones_are_thinned_to_hours_and_days() {
    let now = at("2026-06-11T00:00:00Z");
    let all = series(now, 10 * 24 * 6, 10 * MINUTE, Trigger::CodeModified);
    let rule = Rule {
        keep: Keep::Forever,
        max: None,
        hourly_after: Some(DAY as u64),
        daily_after: Some(7 * DAY as u64),
    };
    let policy = Policy::Rules(Rules { default: rule, ..Rules::default() });
    // A day of every ten minutes, six days of hours, three days with one each.
    let decisions = utc(&all, &policy, now);
    assert!((24 * 6 + 6 * 24 + 3..=24 * 6 + 6 * 24 + 6).contains(&kept(&decisions)));
    // It is the newest of an hour that stays.
    let hour = &decisions[decisions.len() - 24 * 6 - 13..decisions.len() - 24 * 6 - 1];
    assert!(hour.iter().any(|decision| decision.reason == Reason::SameHour));
}

#[test]
fn what_goes_next_is_known_to_the_minute() {
    let now = at("2026-06-01T12:00:00Z");
    let next = |all: &[Candidate]| {
        next_deletion(all, &Policy::default(), now, &TimeZone::UTC)
            .map(|next| (next.at, next.count))
    };
    // Kept for a day: the first of two goes a day after it was made. The other one is the newest.
    let two = series(now, 2, HOUR, Trigger::PreOperation);
    assert_eq!(next(&two), Some((at("2026-06-02T11:01:00Z"), 1)));
    // Of those that are due by now it is said that they go now.
    let many = series(now, 40, HOUR, Trigger::PreOperation);
    let going = utc(&many, &Policy::default(), now).iter().filter(|one| !one.keep).count();
    assert_eq!(next(&many), Some((now, going)));
    // A session that ended protects its checkpoints for a while longer.
    let mut held = two.clone();
    held[0].session_holds_until = Some(at("2026-06-03T00:00:00Z"));
    assert_eq!(next(&held), Some((at("2026-06-03T00:00:00Z"), 1)));
    // Manual ones never go.
    assert_eq!(next(&series(now, 9, DAY, Trigger::Manual)), None);
    assert_eq!(next(&[]), None);
}

#[test]
fn what_a_policy_keeps_for_ever_is_protected_from_every_limit() {
    let now = at("2026-06-01T12:00:00Z");
    let all = series(now, 3, 40 * DAY, Trigger::Manual);
    let lugh = utc(&all, &Policy::Preset(Preset::Lugh), now);
    assert_eq!(lugh[0].reason, Reason::Forever);
    assert!(lugh.iter().all(|decision| decision.reason.protects()));
    let prompts = series(now, 3, 40 * HOUR, Trigger::Prompt);
    assert!(!utc(&prompts, &Policy::default(), now)[0].reason.protects());
}

#[test]
fn a_holiday_deletes_nothing() {
    let left = at("2026-06-01T18:00:00Z");
    let all = series(left, 50, HOUR, Trigger::Prompt);
    let before = kept(&utc(&all, &Policy::default(), left));
    // Back after four weeks, the morning's decision is that of the evening before, some hours on.
    let morning = utc(&all, &Policy::default(), at("2026-06-29T08:00:00Z"));
    let evening = utc(&all, &Policy::default(), at("2026-06-02T08:00:00Z"));
    assert_eq!(morning, evening);
    assert!(kept(&morning) > before / 2);
    // The presets count as the seeds do.
    let lugh = Policy::Preset(Preset::Lugh);
    assert_eq!(kept(&utc(&all, &lugh, at("2026-06-29T08:00:00Z"))), 1);
}

#[test]
fn a_clock_that_jumps_deletes_nothing() {
    let now = at("2026-06-01T18:00:00Z");
    let all = series(now, 50, HOUR, Trigger::Prompt);
    let ahead = utc(&all, &Policy::default(), at("2031-01-01T18:00:00Z"));
    assert_eq!(ahead, utc(&all, &Policy::default(), at("2026-06-02T18:00:00Z")));
    assert_eq!(kept(&utc(&all, &Policy::default(), at("2020-01-01T00:00:00Z"))), 50);
}

#[test]
fn days_are_local_days() {
    // In Auckland all of these lie on one local day, in UTC on two.
    let zone = TimeZone::get("Pacific/Auckland").unwrap();
    let rule = Rule { keep: Keep::Forever, max: None, hourly_after: None, daily_after: Some(0) };
    let policy = Policy::Rules(Rules { default: rule, ..Rules::default() });
    let all = [
        made(1, at("2026-03-01T13:00:00Z"), Trigger::Scheduled),
        made(2, at("2026-03-02T05:00:00Z"), Trigger::Scheduled),
        made(3, at("2026-03-20T05:00:00Z"), Trigger::Scheduled),
        made(4, at("2026-03-25T05:00:00Z"), Trigger::Scheduled),
    ];
    let now = at("2026-03-28T05:00:00Z");
    let reasons = |zone: &TimeZone| -> Vec<Reason> {
        decide(&all, &policy, now, zone).into_iter().map(|decision| decision.reason).collect()
    };
    assert_eq!(reasons(&zone)[0], Reason::SameDay);
    assert_eq!(reasons(&TimeZone::UTC)[0], Reason::Forever);
}

/// A year of work: five days a week, a summer holiday, a clock that jumps a month ahead and comes
/// back; pruned every evening.
#[test]
fn a_year_of_work_stays_within_its_numbers() {
    for name in ["Europe/Berlin", "America/New_York", "Asia/Kolkata"] {
        let zone = TimeZone::get(name).unwrap();
        let start = at("2026-01-05T06:00:00Z").as_millis();
        let mut all: Vec<Candidate> = Vec::new();
        let mut sequence = 0;
        for day in 0..365 {
            let holiday = (180..208).contains(&day);
            let weekend = day % 7 >= 5;
            if holiday || weekend {
                continue;
            }
            let jump = if day == 100 { 30 * DAY } else { 0 };
            for save in 0..40 {
                sequence += 1;
                let moment = Timestamp::from_millis(start + day * DAY + jump + save * 12 * MINUTE);
                let trigger = match save {
                    0 => Trigger::Manual,
                    39 => Trigger::EndOfDay,
                    n if n % 3 == 0 => Trigger::PreOperation,
                    _ => Trigger::CodeModified,
                };
                all.push(made(sequence, moment, trigger));
            }
            let now = Timestamp::from_millis(start + day * DAY + jump + 9 * HOUR);
            let decisions = decide(&all, &Policy::default(), now, &zone);
            let stays = |n: &mut usize| {
                *n += 1;
                decisions[*n - 1].keep
            };
            let mut place = 0;
            all.retain(|_| stays(&mut place));
            // Today is there whole.
            let young = all.iter().filter(|one| one.sequence > sequence - 40).count();
            assert_eq!(young, 40, "{name}, day {day}");
        }
        let of = |trigger| all.iter().filter(|one| one.trigger == trigger).count();
        assert!(of(Trigger::Manual) > 200, "every manual one stays");
        assert_eq!(of(Trigger::EndOfDay), 7);
        // Ten by the rule; today's are too young to go.
        assert!(of(Trigger::PreOperation) <= 13);
        assert!(of(Trigger::CodeModified) <= 7 * 9 + 27);
    }
}

fn any_candidate() -> impl Strategy<Value = Candidate> {
    let trigger = prop::sample::select(Trigger::ALL);
    let tags = prop::sample::select(&["", "auto", "branch_merged", "hypothesis_rejected"][..]);
    let flags = (any::<bool>(), prop::bool::weighted(0.1), prop::bool::weighted(0.1));
    let session = prop::option::of("[ab]");
    (0..90 * 24 * 60_i64, trigger, tags, flags, session, prop::bool::weighted(0.1)).prop_map(
        |(minutes, trigger, tag, (holds_files, pinned, undoable), session, recent)| {
            let epoch = at("2026-03-01T00:00:00Z").as_millis();
            Candidate {
                tags: vec![tag.to_owned()],
                holds_files,
                pinned,
                undoable,
                session_holds_until: (recent && session.is_some())
                    .then(|| at("2027-01-01T00:00:00Z")),
                session,
                ..made(0, Timestamp::from_millis(epoch + minutes * MINUTE), trigger)
            }
        },
    )
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let rule = (0..40_u64, prop::option::of(0..5_u64), prop::option::of(0..9_u64)).prop_map(
        |(days, max, hourly)| Rule {
            keep: if days == 0 { Keep::Forever } else { Keep::For(days * DAY as u64) },
            max,
            hourly_after: hourly.map(|days| days * DAY as u64),
            daily_after: hourly.map(|days| 2 * days * DAY as u64),
        },
    );
    let rules = (rule.clone(), prop::option::of(rule), any::<bool>()).prop_map(
        |(default, prompt, include_manual)| {
            let mut rules = Rules { default, include_manual, ..Rules::default() };
            rules.triggers.extend(prompt.map(|rule| (Trigger::Prompt, rule)));
            Policy::Rules(rules)
        },
    );
    let preset = prop::sample::select(&Preset::ALL[..]).prop_map(|(_, one)| Policy::Preset(one));
    let newest = (prop::option::of(0..9_u64), prop::option::of(0..40_u64), any::<bool>()).prop_map(
        |(last, days, include_manual)| Policy::Newest {
            last: last.or(Some(3)),
            within: days.map(|days| days * DAY as u64),
            include_manual,
        },
    );
    prop_oneof![rules, preset, newest]
}

proptest! {
    #[test]
    fn the_protections_hold_and_deciding_again_changes_nothing(
        mut all in prop::collection::vec(any_candidate(), 0..60),
        policy in any_policy(),
        zone in prop::sample::select(&["UTC", "Europe/London", "Asia/Kathmandu"][..]),
    ) {
        all.sort_by_key(|one| one.created_at);
        for (place, one) in all.iter_mut().enumerate() {
            one.sequence = place as u64 + 1;
            one.id = id(one.sequence);
        }
        let zone = TimeZone::get(zone).unwrap();
        let now = at("2026-05-30T12:00:00Z");
        let decisions = decide(&all, &policy, now, &zone);
        prop_assert_eq!(decisions.len(), all.len());
        let with_files = all.iter().rev().find(|one| one.holds_files);
        for (one, decision) in all.iter().zip(&decisions) {
            prop_assert_eq!(&one.id, &decision.id);
            prop_assert_eq!(decision.keep, decision.reason.keeps());
            let is_newest = with_files.is_some_and(|newest| newest.id == one.id);
            prop_assert!(decision.keep || !(one.pinned || one.undoable || is_newest));
            let strict = matches!(policy, Policy::Preset(_));
            let day = now.millis_since(one.created_at) < DAY;
            prop_assert!(decision.keep || strict || !(day || one.session_holds_until.is_some()));
        }
        let mut keep = decisions.iter().map(|decision| decision.keep);
        all.retain(|_| keep.next().unwrap_or(true));
        let again = decide(&all, &policy, now, &zone);
        prop_assert!(again.iter().all(|decision| decision.keep), "{again:?}");
    }
}
