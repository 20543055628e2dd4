//! Lists in pages, and what happened in a home.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail loudly"
)]

mod support;

use proptest::prelude::*;
use rappel::events::Happening;
use rappel::types::{Reference, Trigger};
use rappel::{Cursor, ListFilter, Rappel, SaveOptions};
use rappel_testing::Project;
use support::World;

fn reference(text: &str) -> Reference {
    text.parse().unwrap()
}

fn ids(rappel: &Rappel, filter: &ListFilter) -> Vec<String> {
    let listing = rappel.list(filter).unwrap();
    listing.checkpoints.iter().map(|one| one.manifest.id.to_string()).collect()
}

/// The same list, page by page; `between` happens after each page.
fn paged(
    rappel: &Rappel,
    filter: &ListFilter,
    size: usize,
    mut between: impl FnMut(),
) -> Vec<String> {
    let (mut after, mut found) = (None, Vec::new());
    loop {
        let page = ListFilter { limit: Some(size), after, ..filter.clone() };
        let listing = rappel.list(&page).unwrap();
        assert!(listing.checkpoints.len() <= size);
        found.extend(listing.checkpoints.iter().map(|one| one.manifest.id.to_string()));
        between();
        match listing.next {
            Some(next) => after = Some(next.parse::<Cursor>().unwrap()),
            None => return found,
        }
    }
}

fn filters() -> Vec<ListFilter> {
    let tag = |tag: &str| ListFilter { tag: Some(tag.into()), ..ListFilter::default() };
    let trigger = |trigger| ListFilter { trigger: Some(trigger), ..ListFilter::default() };
    vec![
        ListFilter::default(),
        ListFilter { all: true, ..ListFilter::default() },
        ListFilter { all_workspaces: true, all: true, ..ListFilter::default() },
        ListFilter { deleted: true, ..ListFilter::default() },
        ListFilter { own: true, ..ListFilter::default() },
        ListFilter { path: Some("a".parse().unwrap()), ..ListFilter::default() },
        tag("odd"),
        tag("none"),
        trigger(Trigger::Manual),
        trigger(Trigger::CodeModified),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, max_shrink_iters: 20, ..ProptestConfig::default() })]

    #[test]
    fn pages_put_together_are_the_list(steps in proptest::collection::vec(0..6_u8, 3..14)) {
        let world = World::new(Project::new().file("a", "0"));
        let rappel = world.open();
        for (number, step) in steps.iter().enumerate() {
            world.clock.advance(1000);
            world.write("a", number.to_string());
            match step {
                0..=2 => {
                    let tags = if step % 2 == 1 { vec!["odd".to_owned()] } else { vec![] };
                    rappel.save(&SaveOptions { tags, ..SaveOptions::default() }).unwrap();
                }
                3 => {
                    let trigger = Some(Trigger::CodeModified);
                    rappel.save(&SaveOptions { trigger, ..SaveOptions::default() }).unwrap();
                }
                4 => drop(rappel.tag(&reference("latest"), &["odd".into()])),
                _ => drop(rappel.delete(&[reference("latest")], false)),
            }
        }
        for filter in filters() {
            let whole = ids(&rappel, &filter);
            for size in 1..4 {
                prop_assert_eq!(&paged(&rappel, &filter, size, || {}), &whole, "{:?}", filter);
            }
        }
        // What is saved meanwhile is on no later page, and moves nothing.
        let filter = ListFilter { all: true, ..ListFilter::default() };
        let whole = ids(&rappel, &filter);
        let mut number = 100;
        let found = paged(&rappel, &filter, 2, || {
            number += 1;
            world.clock.advance(1000);
            world.write("a", number.to_string());
            rappel.save(&SaveOptions::default()).unwrap();
        });
        prop_assert_eq!(found, whole);
    }
}

#[test]
fn the_events_of_a_home_are_typed_and_go_on_where_a_reader_stopped() {
    let world = World::new(Project::new().file("a", "0"));
    let rappel = world.open();
    let first = rappel.save(&SaveOptions::default()).unwrap().checkpoint.manifest.id;
    let start = rappel.events(None, 100).unwrap();
    assert!(start.events.iter().any(|event| event.happening.name() == "workspace"));
    let made = |event: &rappel::events::HomeEvent| match &event.happening {
        Happening::CheckpointMade(made) => Some(made.checkpoint.clone()),
        _ => None,
    };
    assert_eq!(start.events.iter().find_map(made), Some(first.to_string()));
    assert_eq!(start.next, rappel.events_end().unwrap());

    let reference = reference(first.as_str());
    rappel.tag(&reference, &["good".into()]).unwrap();
    rappel.delete(std::slice::from_ref(&reference), false).unwrap();
    let names = |rappel: &Rappel| -> Vec<_> {
        let page = rappel.events(Some(&start.next), 100).unwrap();
        assert!(!page.reset);
        page.events.iter().map(|event| event.happening.name()).collect()
    };
    let expected = ["checkpoint.labelled", "checkpoint.deleted"];
    assert_eq!(names(&rappel), expected);
    assert_eq!(names(&world.open()), expected, "another process is told the same");
    let json = serde_json::to_value(rappel.events(Some(&start.next), 1).unwrap()).unwrap();
    assert_eq!(json["events"][0]["type"], "checkpoint-labelled");
    assert!(rappel.events(Some("nonsense"), 1).is_err());
}
