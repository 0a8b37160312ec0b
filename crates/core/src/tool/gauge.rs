//! The state of a handle of a performance variable.
//!
//! A handle shows the part of a value that was counted while the handle was started, since its
//! reset (MPI-5.0 section 15.3.7). The callers pass the current value of the process.

use super::pvars::{Class, Value};

/// The state of one handle.
#[derive(Clone, Copy, Debug)]
pub struct Gauge {
    class: Class,
    is_started: bool,
    /// The value without the count since `base`.
    kept: Value,
    base: Value,
}

impl Gauge {
    /// A new handle of a variable with the value `now`. Handles of continuous variables are
    /// started.
    pub fn new(class: Class, now: Value) -> Gauge {
        let zero = if class.is_mark() { now } else { class.zero() };
        Gauge { class, is_started: class.is_continuous(), kept: zero, base: now }
    }

    /// Whether the handle is started.
    pub fn is_started(&self) -> bool {
        self.is_started
    }

    /// Starts the handle (MPI_T_pvar_start).
    pub fn start(&mut self, now: Value) {
        if !self.is_started {
            (self.is_started, self.base) = (true, now);
        }
    }

    /// Stops the handle (MPI_T_pvar_stop).
    pub fn stop(&mut self, now: Value) {
        if self.is_started && !self.class.is_continuous() {
            self.kept = self.value(now);
            self.is_started = false;
        }
    }

    /// The value of the handle.
    pub fn value(&self, now: Value) -> Value {
        match (self.class.is_continuous(), self.is_started) {
            (true, _) => now,
            (false, false) => self.kept,
            (false, true) if self.class.is_mark() => self.kept.max(now),
            (false, true) => self.kept.plus(now.minus(self.base)),
        }
    }

    /// Sets the value of the handle, if the variable is not read-only.
    pub fn write(&mut self, value: Value, now: Value) {
        (self.kept, self.base) = (value, now);
    }

    /// Resets the value to zero; for a high-water mark, to the present level.
    pub fn reset(&mut self, now: Value) {
        self.write(if self.class.is_mark() { now } else { self.class.zero() }, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Value::{Count, Real};

    #[test]
    fn a_counter_counts_while_it_is_started() {
        let mut gauge = Gauge::new(Class::Counter, Count(100));
        assert_eq!(gauge.value(Count(150)), Count(0), "it is stopped at first");
        gauge.start(Count(200));
        assert_eq!(gauge.value(Count(210)), Count(10));
        gauge.start(Count(205));
        assert_eq!(gauge.value(Count(210)), Count(10), "started once");
        gauge.stop(Count(210));
        assert_eq!(gauge.value(Count(300)), Count(10));
        gauge.start(Count(300));
        gauge.write(Count(1000), Count(310));
        assert_eq!(gauge.value(Count(311)), Count(1001));
        gauge.reset(Count(400));
        assert_eq!(gauge.value(Count(402)), Count(2));
    }

    #[test]
    fn a_timer_counts_in_seconds() {
        let mut gauge = Gauge::new(Class::Timer, Real(1.0));
        gauge.start(Real(2.0));
        assert_eq!(gauge.value(Real(2.5)), Real(0.5));
    }

    #[test]
    fn a_level_shows_the_present_value() {
        let gauge = Gauge::new(Class::Level, Count(3));
        assert!(gauge.is_started());
        assert_eq!(gauge.value(Count(5)), Count(5));
    }

    #[test]
    fn a_mark_only_rises() {
        let mut gauge = Gauge::new(Class::HighWatermark, Count(2));
        assert_eq!(gauge.value(Count(9)), Count(2), "it is stopped at first");
        gauge.start(Count(2));
        assert_eq!(gauge.value(Count(7)), Count(7));
        gauge.stop(Count(7));
        assert_eq!(gauge.value(Count(20)), Count(7));
        gauge.reset(Count(1));
        gauge.start(Count(1));
        assert_eq!(gauge.value(Count(4)), Count(4));
    }
}
