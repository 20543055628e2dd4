//! How old a checkpoint is, counted in active days.

use std::collections::BTreeSet;
use std::rc::Rc;

use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::Timestamp;

/// The local days of a workspace on which somebody worked.
pub(super) struct Calendar<'a> {
    now: Timestamp,
    zone: &'a TimeZone,
    /// For each active day, its first moment and how many idle milliseconds lie after it, up to now.
    idle_after: Rc<[(i64, u64)]>,
}

impl<'a> Calendar<'a> {
    pub fn new(
        active: impl Iterator<Item = Timestamp>,
        now: Timestamp,
        zone: &'a TimeZone,
    ) -> Self {
        let date = |moment: Timestamp| moment.0.to_zoned(zone.clone()).date();
        let today = date(now);
        let mut active: BTreeSet<Date> = active.map(date).filter(|day| *day < today).collect();
        active.insert(today);
        let mut idle_after = Vec::with_capacity(active.len());
        let (mut idle, mut later) = (0, None);
        for day in active.into_iter().rev() {
            if let (Some(later), Some(end)) = (later, start_of(day.tomorrow().ok(), zone)) {
                idle += u64::try_from(later - end).unwrap_or(0);
            }
            let Some(start) = start_of(Some(day), zone) else { continue };
            idle_after.push((start, idle));
            later = Some(start);
        }
        idle_after.reverse();
        Self { now, zone, idle_after: idle_after.into() }
    }

    /// The same at a later moment, if no day until then is idle.
    pub fn at(&self, now: Timestamp) -> Self {
        Self { now, zone: self.zone, idle_after: self.idle_after.clone() }
    }

    /// The present moment.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Milliseconds since then; none if the moment lies ahead.
    pub fn elapsed(&self, then: Timestamp) -> u64 {
        u64::try_from(self.now.millis_since(then)).unwrap_or(0)
    }

    /// The same without every whole local day that had no checkpoint.
    pub fn age(&self, then: Timestamp) -> u64 {
        let place = self.idle_after.partition_point(|(start, _)| *start <= then.as_millis());
        let idle = place.checked_sub(1).map_or(0, |place| self.idle_after[place].1);
        self.elapsed(then).saturating_sub(idle)
    }

    /// The local day of a moment, as a number.
    pub fn day(&self, then: Timestamp) -> i64 {
        let zoned = then.0.to_zoned(self.zone.clone());
        i64::from(zoned.date().year()) * 400 + i64::from(zoned.date().day_of_year())
    }

    /// The clock's hour of a moment, as a number. An hour that comes twice in a day is two.
    pub fn hour(&self, then: Timestamp) -> i64 {
        let zoned = then.0.to_zoned(self.zone.clone());
        let seconds = zoned.timestamp().as_second() + i64::from(zoned.offset().seconds());
        seconds.div_euclid(3600) * 86_400 * 2 + i64::from(zoned.offset().seconds())
    }
}

/// The first moment of a day, in milliseconds since the epoch.
fn start_of(day: Option<Date>, zone: &TimeZone) -> Option<i64> {
    let zoned = day?.to_zoned(zone.clone()).ok()?;
    Some(zoned.timestamp().as_millisecond())
}
