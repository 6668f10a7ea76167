//! The runner of the queue, for metrics.

use std::sync::{Arc, OnceLock};

use posthaste_queue::{Figures, Runner};

/// The runner of the queue, once there is one, for metrics. Cheap to clone: all clones are one.
#[derive(Clone, Default)]
pub struct CurrentRunner(Arc<OnceLock<Arc<Runner>>>);

impl CurrentRunner {
    /// Names the runner. A server has one at most.
    pub fn set(&self, runner: Arc<Runner>) {
        let _ = self.0.set(runner);
    }

    /// The counts of waiting and of finished items; `None` if nothing is sent.
    pub fn figures(&self) -> Option<Figures> {
        self.0.get().map(|runner| runner.figures())
    }
}
