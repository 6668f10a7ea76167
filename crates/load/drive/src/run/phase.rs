//! The clock of a run: ramp, warm-up, measuring, end; and the request to stop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// Shared by all threads of a run.
pub struct Phase {
    start: Instant,
    ramp: Duration,
    warmup: Duration,
    measure: Duration,
    stop: watch::Sender<bool>,
    interrupted: AtomicBool,
}

impl Phase {
    /// A run that starts at this moment, which may be in the future.
    pub fn new(start: Instant, ramp: Duration, warmup: Duration, measure: Duration) -> Self {
        let (stop, _) = watch::channel(false);
        Self { start, ramp, warmup, measure, stop, interrupted: AtomicBool::new(false) }
    }

    /// The start of virtual user `index` of `count`.
    pub fn user_start(&self, index: u32, count: u32) -> Instant {
        self.start + self.ramp.mul_f64(f64::from(index) / f64::from(count.max(1)))
    }

    /// Seconds since the start.
    pub fn seconds(&self, at: Instant) -> f64 {
        at.saturating_duration_since(self.start).as_secs_f64()
    }

    /// The start.
    pub fn start(&self) -> Instant {
        self.start
    }

    /// The start of measuring.
    pub fn measure_start(&self) -> Instant {
        self.start + self.ramp + self.warmup
    }

    /// The time at which it ends unless it is stopped.
    pub fn measure_end(&self) -> Instant {
        self.measure_start() + self.measure
    }

    /// Whether something that ended at `at` counts.
    pub fn counts(&self, at: Instant) -> bool {
        at >= self.measure_start() && at < self.measure_end()
    }

    /// The name of the part `now` is in.
    pub fn name(&self, now: Instant) -> &'static str {
        match now {
            _ if self.is_stopping() => "ending",
            now if now < self.start => "waiting",
            now if now < self.start + self.ramp => "ramp",
            now if now < self.measure_start() => "warm-up",
            now if now < self.measure_end() => "measuring",
            _ => "ending",
        }
    }

    /// Signals all users to finish.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Signals all users to finish after Ctrl-C.
    pub fn interrupt(&self) {
        self.interrupted.store(true, Ordering::Relaxed);
        self.stop();
    }

    /// Whether Ctrl-C ended the run.
    pub fn was_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Whether all users must finish.
    pub fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }

    /// Returns when all users must finish.
    pub async fn stopping(&self) {
        let mut stop = self.stop.subscribe();
        let _ = stop.wait_for(|stop| *stop).await;
    }

    /// Sleeps, but ends early if all users must finish. `true` if the run continues.
    pub async fn sleep_until(&self, when: Instant) -> bool {
        if when <= Instant::now() {
            return !self.is_stopping();
        }
        tokio::select! {
            () = tokio::time::sleep_until(when.into()) => !self.is_stopping(),
            () = self.stopping() => false,
        }
    }
}
