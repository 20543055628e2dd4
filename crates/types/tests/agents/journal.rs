//! A journal in memory, kept as the engine keeps the stored one: what comes in is checked, numbered, named, taken, and
//! followed by the contradictions it raises.

use rappel_types::Timestamp;
use rappel_types::agents::contradiction::{self, Thresholds};
use rappel_types::agents::{
    Body, Event, Fork, Illegal, Lineage, NewEvent, SessionState, SessionStatus, payload,
};

pub struct Journal {
    pub state: SessionState,
    pub events: Vec<Event>,
    pub lineage: Lineage,
    /// Milliseconds since the session began.
    pub clock: i64,
    made: u64,
}

pub fn moment(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + millis)
}

pub fn fresh() -> SessionState {
    SessionState::new("s1".parse().unwrap())
}

pub fn fold<'a>(events: impl IntoIterator<Item = &'a Event>) -> SessionState {
    let mut state = fresh();
    events.into_iter().for_each(|event| state.apply(event));
    state
}

impl Journal {
    pub fn empty() -> Self {
        Self { state: fresh(), events: Vec::new(), lineage: Lineage::default(), clock: 0, made: 0 }
    }

    /// A session that has begun.
    pub fn begun() -> Self {
        let mut journal = Self::empty();
        journal.add(Body::SessionStarted(payload::SessionStarted::default())).unwrap();
        journal
    }

    /// Takes a body in, as it is recorded; says what the thing it made is called.
    pub fn add(&mut self, body: Body) -> Result<Option<String>, Illegal> {
        let id = body.prefix().map(|prefix| format!("{prefix}{}", self.made + 1));
        self.state.check(id.as_deref(), &body)?;
        self.made += u64::from(id.is_some());
        let event = self.put(id.clone(), body);
        for follows in contradiction::follow(&self.state, &event, &Thresholds::default()) {
            self.put(None, follows);
        }
        Ok(id)
    }

    /// A line of `record --stdin`.
    pub fn line(&mut self, line: &str) -> Result<Option<String>, String> {
        let new =
            NewEvent::parse(line).and_then(NewEvent::cleaned).map_err(|error| error.to_string())?;
        self.add(new.body).map_err(|error| error.to_string())
    }

    /// A line that must be taken.
    pub fn say(&mut self, line: &str) -> String {
        self.line(line).unwrap().unwrap_or_default()
    }

    /// Appends whatever is given, checked or not.
    pub fn put(&mut self, id: Option<String>, body: Body) -> Event {
        self.clock += 1_000;
        let event = Event {
            number: self.events.len() as u64 + 1,
            fork: self.lineage.current(),
            at: moment(self.clock),
            id,
            body,
        };
        self.state.apply(&event);
        self.events.push(event.clone());
        event
    }

    /// Sets the session back to an event of the fork it is on.
    pub fn restore(&mut self, to: u64) {
        self.restore_on(self.lineage.current(), to);
    }

    /// Sets the session back to where the journal stood when a fork had come to an event.
    pub fn restore_on(&mut self, of: u32, to: u64) {
        let fork = self.lineage.current() + 1;
        let begins = self.events.len() as u64 + 1;
        let mut forks = self.lineage.forks().to_vec();
        forks.push(Fork { fork, begins, of, to });
        self.lineage = Lineage::new(forks);
        self.state = fold(self.seen(of, to));
        self.put(
            None,
            Body::Restored(payload::Restored {
                checkpoint: "chk_20261115_143022_k7f3".parse().unwrap(),
                of,
                to,
                status: SessionStatus::Running,
                intent: None,
                taken_back: false,
            }),
        );
    }

    /// The events that are known at `to` on a fork.
    pub fn seen(&self, fork: u32, to: u64) -> Vec<&Event> {
        self.events
            .iter()
            .filter(|event| self.lineage.knows(fork, to, event.fork, event.number))
            .collect()
    }
}
