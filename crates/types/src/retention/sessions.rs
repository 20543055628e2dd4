//! Which agents' sessions are kept: their journals, and what transcripts told.
//!
//! A session outlives its checkpoints. It goes when it ended longer ago than the policy keeps
//! sessions and nothing that stays refers to it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use super::age::Calendar;
use super::{Keep, Policy};
use crate::Timestamp;
use crate::agents::SessionId;

/// A session that ended this recently stays.
pub const RECENT_MS: u64 = 72 * 3_600_000;

/// What a decision needs to know of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionCandidate {
    /// Its id.
    pub id: SessionId,
    /// The session that began it.
    pub parent: Option<SessionId>,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// When it ended; nothing while it runs or waits.
    pub ended_at: Option<Timestamp>,
    /// Whether `undo` or `redo` could set it back.
    pub undoable: bool,
}

/// Why a session is kept or goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SessionReason {
    /// Kept: it runs or waits.
    Running,
    /// Kept: it ended a short time ago.
    Recent,
    /// Kept: a checkpoint refers to it.
    Held,
    /// Kept: `undo` or `redo` could set it back.
    Undoable,
    /// Kept: a session that stays goes on from it.
    Parent,
    /// Kept: the policy keeps all sessions for ever.
    Forever,
    /// Kept: the policy keeps it.
    Policy,
    /// Goes: it ended longer ago than the policy keeps sessions.
    TooOld,
}

impl SessionReason {
    /// Whether a session with this reason stays.
    pub fn keeps(self) -> bool {
        self != Self::TooOld
    }
}

impl fmt::Display for SessionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Running => "it runs or waits",
            Self::Recent => "it ended under 72 hours ago",
            Self::Held => "a checkpoint refers to it",
            Self::Undoable => "undo or redo may need it",
            Self::Parent => "a later session goes on from it",
            Self::Forever => "the policy keeps sessions for ever",
            Self::Policy => "within the policy",
            Self::TooOld => "it ended longer ago than the policy keeps sessions",
        })
    }
}

/// What becomes of one session.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct SessionDecision {
    /// The session.
    pub id: SessionId,
    /// Whether it stays.
    pub keep: bool,
    /// Why.
    pub reason: SessionReason,
}

impl SessionCandidate {
    /// Moments at which somebody worked.
    pub fn moments(&self) -> impl Iterator<Item = Timestamp> {
        self.started_at.into_iter().chain(self.ended_at)
    }
}

/// So many days are remembered.
const DAYS_MAX: usize = 4000;

/// One of these moments for each local day, oldest first; of very many, the newest.
pub fn one_per_day(
    moments: impl IntoIterator<Item = Timestamp>,
    zone: &jiff::tz::TimeZone,
) -> Vec<Timestamp> {
    let mut days: BTreeMap<jiff::civil::Date, Timestamp> = BTreeMap::new();
    for moment in moments {
        days.entry(moment.0.to_zoned(zone.clone()).date()).or_insert(moment);
    }
    let skipped = days.len().saturating_sub(DAYS_MAX);
    days.into_values().skip(skipped).collect()
}

/// Decides for every session of one workspace. `worked` are moments of the days on which somebody
/// worked; any other day makes nothing older. `is_held` says whether a checkpoint refers to a
/// session; it is asked only about those that would go.
pub fn decide_sessions<E>(
    sessions: &[SessionCandidate],
    worked: &[Timestamp],
    policy: &Policy,
    (now, zone): (Timestamp, &jiff::tz::TimeZone),
    is_held: impl Fn(&SessionId) -> Result<bool, E>,
) -> Result<Vec<SessionDecision>, E> {
    let own = sessions.iter().flat_map(SessionCandidate::moments);
    let calendar = Calendar::new(worked.iter().copied().chain(own), now, zone);
    let mut reasons: HashMap<&SessionId, SessionReason> = HashMap::new();
    for session in sessions {
        let reason = match ruled(session, policy, &calendar) {
            SessionReason::TooOld if is_held(&session.id)? => SessionReason::Held,
            reason => reason,
        };
        reasons.insert(&session.id, reason);
    }
    keep_parents(sessions, &mut reasons);
    let decision = |session: &SessionCandidate| {
        let reason = reasons[&session.id];
        SessionDecision { id: session.id.clone(), keep: reason.keeps(), reason }
    };
    Ok(sessions.iter().map(decision).collect())
}

fn ruled(session: &SessionCandidate, policy: &Policy, calendar: &Calendar<'_>) -> SessionReason {
    let Some(ended_at) = session.ended_at else { return SessionReason::Running };
    let age = calendar.age(ended_at);
    match policy.sessions() {
        _ if age < RECENT_MS => SessionReason::Recent,
        _ if session.undoable => SessionReason::Undoable,
        Keep::Forever => SessionReason::Forever,
        Keep::For(limit) if age <= limit => SessionReason::Policy,
        Keep::For(_) => SessionReason::TooOld,
    }
}

/// Keeps what the sessions that stay come from, to the first of them.
fn keep_parents<'a>(
    sessions: &'a [SessionCandidate],
    reasons: &mut HashMap<&'a SessionId, SessionReason>,
) {
    let parents: HashMap<&SessionId, &SessionId> =
        sessions.iter().filter_map(|one| Some((&one.id, one.parent.as_ref()?))).collect();
    for session in sessions.iter().filter(|one| reasons[&one.id].keeps()).collect::<Vec<_>>() {
        // What a journal says of its parent may lead in a circle.
        let mut seen = HashSet::new();
        let mut next = parents.get(&session.id).copied();
        while let Some(parent) = next.filter(|parent| seen.insert(*parent)) {
            if let Some(reason) = reasons.get_mut(parent)
                && !reason.keeps()
            {
                *reason = SessionReason::Parent;
            }
            next = parents.get(parent).copied();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retention::Rules;

    const DAY_MS: i64 = 24 * 3_600_000;

    fn day(number: i64) -> Timestamp {
        Timestamp::from_millis(number * DAY_MS)
    }

    fn session(id: &str, ended: Option<i64>) -> SessionCandidate {
        SessionCandidate {
            id: id.parse().unwrap(),
            parent: None,
            started_at: ended.map(day),
            ended_at: ended.map(day),
            undoable: false,
        }
    }

    fn decided(
        sessions: &[SessionCandidate],
        keep_days: u64,
        held: &[&str],
    ) -> Vec<(String, SessionReason)> {
        let keep = Keep::For(keep_days * DAY_MS as u64);
        let policy = Policy::Rules(Rules { sessions: keep, ..Rules::default() });
        let zone = jiff::tz::TimeZone::UTC;
        let is_held = |id: &SessionId| Ok::<_, ()>(held.contains(&id.as_str()));
        let found = decide_sessions(sessions, &[], &policy, (day(1000), &zone), is_held);
        found.unwrap().into_iter().map(|one| (one.id.to_string(), one.reason)).collect()
    }

    /// A session on every day up to this one, so that no day is idle.
    fn every_day(until: i64) -> Vec<SessionCandidate> {
        (900..=until).map(|at| session(&format!("d{at}"), Some(at))).collect()
    }

    #[test]
    fn only_old_ones_that_nothing_needs_go() {
        let mut all = every_day(1000);
        all.push(session("running", None));
        all[2].undoable = true;
        let found = decided(&all, 90, &["d901", "running"]);
        let of = |id: &str| found.iter().find(|(one, _)| one == id).unwrap().1;
        assert_eq!(of("d900"), SessionReason::TooOld);
        assert_eq!(of("d901"), SessionReason::Held);
        assert_eq!(of("d902"), SessionReason::Undoable);
        assert_eq!(of("d909"), SessionReason::TooOld);
        assert_eq!(of("d910"), SessionReason::Policy);
        assert_eq!(of("d999"), SessionReason::Recent);
        assert_eq!(of("running"), SessionReason::Running);
        // However short the rule is, a recent one stays.
        assert!(decided(&all, 0, &[]).iter().any(|(_, reason)| *reason == SessionReason::Recent));
    }

    #[test]
    fn what_a_kept_session_comes_from_stays() {
        let mut all = every_day(1000);
        // d1000 goes on from d903, that from d901, and that from itself.
        all[100].parent = Some("d903".parse().unwrap());
        all[3].parent = Some("d901".parse().unwrap());
        all[1].parent = Some("d901".parse().unwrap());
        all[4].parent = Some("gone".parse().unwrap());
        let found = decided(&all, 50, &[]);
        let of = |id: &str| found.iter().find(|(one, _)| one == id).unwrap().1;
        assert_eq!(of("d903"), SessionReason::Parent);
        assert_eq!(of("d901"), SessionReason::Parent);
        assert_eq!(of("d902"), SessionReason::TooOld);
        assert_eq!(of("d904"), SessionReason::TooOld);
    }

    #[test]
    fn a_holiday_or_a_clock_that_jumped_makes_nothing_old() {
        let all: Vec<_> = (10..20).map(|at| session(&format!("d{at}"), Some(at))).collect();
        assert!(decided(&all, 30, &[]).iter().all(|(_, reason)| reason.keeps()));
    }

    #[test]
    fn one_moment_of_each_day_is_remembered() {
        let zone = jiff::tz::TimeZone::UTC;
        let hour = |number: i64| Timestamp::from_millis(number * 3_600_000);
        let days = one_per_day([hour(50), hour(1), hour(47), hour(2), hour(49)], &zone);
        assert_eq!(days, [hour(1), hour(47), hour(50)]);
        assert_eq!(one_per_day((0..5000).map(day), &zone)[0], day(1000));
    }

    #[test]
    fn presets_keep_a_year_and_numbers_on_the_command_line_keep_all() {
        let newest = Policy::Newest { last: Some(1), within: None, include_manual: true };
        assert_eq!(newest.sessions(), Keep::Forever);
        let preset = Policy::Preset(crate::retention::Preset::Loki);
        assert_eq!(preset.sessions(), Rules::default().sessions);
    }
}
