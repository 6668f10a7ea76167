//! One run of a script.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use posthaste_net::on_compute_thread_with;
use posthaste_sieve::{Context, Outcome, Script};

use crate::permit::RunPermit;
use crate::world::World;

/// How long a run may take: its steps take well under a second, so a machine must be very busy or
/// an engine very slow. Twice as long would be as long as other messages wait for a thread.
const RUN_TIME_MAX: Duration = Duration::from_secs(30);
/// Ends a run at its next step as soon as nobody waits for it: the client has left, or the server
/// stops, which waits for the threads that compute.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs a script. The error says why it failed. A run ends if no caller waits for it.
pub(crate) async fn run_script(
    (script, world): (Arc<Script>, World),
    bytes: Bytes,
    permit: Arc<RunPermit>,
) -> Result<Outcome, String> {
    let stop = Arc::clone(&world.stop);
    run_in((script, world), stop, bytes, permit).await
}

/// The same in any world that ends its run when `stop` is set.
async fn run_in(
    (script, world): (Arc<Script>, impl Context + Send + 'static),
    stop: Arc<AtomicBool>,
    bytes: Bytes,
    permit: Arc<RunPermit>,
) -> Result<Outcome, String> {
    // A run may take a large part of a second, and may wait for the engine.
    let waits = StopOnDrop(stop);
    let mut run = on_compute_thread_with(permit, move || script.run(&bytes, &world));
    let outcome = match tokio::time::timeout(RUN_TIME_MAX, &mut run).await {
        Ok(outcome) => outcome,
        Err(_) => {
            drop(waits);
            run.await
        }
    };
    let outcome = outcome.map_err(|error| error.to_string())?;
    match &outcome.error {
        Some(error) => Err(error.to_string()),
        None => Ok(outcome),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures_util::FutureExt as _;
    use posthaste_mail_model::{AccountId, Id};
    use posthaste_net::ByteBudget;
    use posthaste_sieve::{Capabilities, Moment};

    use super::*;
    use crate::permit::Runs;

    /// A world whose only answer comes when the run is stopped.
    struct NeverAnswers {
        stop: Arc<AtomicBool>,
        asked: mpsc::Sender<()>,
    }

    impl Context for NeverAnswers {
        fn envelope_from(&self) -> &str {
            ""
        }

        fn envelope_to(&self) -> &str {
            ""
        }

        fn now(&self) -> Moment {
            Moment { unix_s: 0, zone_minutes: 0 }
        }

        fn mailbox_exists(&self, _mailbox: &str) -> bool {
            self.asked.send(()).unwrap();
            while !self.stop.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            false
        }

        fn stop(&self) -> Option<&AtomicBool> {
            Some(&self.stop)
        }
    }

    /// The client has left or the server stops: at the next step the thread is free for others.
    #[tokio::test]
    async fn a_run_ends_when_nobody_waits_for_it() {
        let source = "require \"mailbox\"; if mailboxexists [\"a\", \"b\", \"c\"] { discard; } elsif mailboxexists \"d\" { stop; }";
        let script = Arc::new(Script::compile(source, &Capabilities::default()).unwrap());
        let (runs, budget) = (Runs::new(), ByteBudget::new(64 << 20));
        let account = AccountId(Id::from_bytes([7; 16]));
        let permit = runs.permit(&budget, account, 0).await.unwrap();
        let (asked, questions) = mpsc::channel();
        let stop = Arc::<AtomicBool>::default();
        let world = NeverAnswers { stop: Arc::clone(&stop), asked };
        let mut run = Box::pin(run_in((script, world), stop, Bytes::from_static(b"A: b\r\n\r\n"), permit));
        assert!(run.as_mut().now_or_never().is_none());
        questions.recv().unwrap();
        drop(run);
        // The run holds the account's only permit until it has ended.
        runs.permit(&budget, account, 0).await.unwrap();
        assert_eq!(questions.iter().count(), 0, "it went on");
    }
}
