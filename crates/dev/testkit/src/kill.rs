//! Kills a server while clients work on it.
//!
//! The test waits for acknowledgements. It fails and says why if a client ends before there are
//! enough, if a client panics, or if nothing is acknowledged for a minute.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use crate::server::Server;

/// Longest time between two acknowledgements.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A report of a client's thread to the test.
enum Report {
    Acknowledged,
    /// The connection broke. Before the kill that is a failure.
    Broken(String),
    /// A wrong answer: a failure at any time.
    Panicked(String),
}

/// Counts acknowledgements of one client.
pub struct Acknowledged(Sender<Report>);

impl Acknowledged {
    /// The server acknowledged one more piece of work.
    pub fn count(&self) {
        // The test no longer receives after the kill.
        let _ = self.0.send(Report::Acknowledged);
    }
}

impl Server {
    /// Runs each client in a thread, and kills the server after `enough` acknowledgements of all
    /// clients together. A client works until its connection breaks.
    pub fn kill_at_work<C>(self, enough: usize, clients: impl IntoIterator<Item = C>)
    where
        C: FnOnce(&Acknowledged) -> std::io::Result<()> + Send,
    {
        let (sender, reports) = mpsc::channel();
        let failure = std::thread::scope(|scope| {
            for client in clients {
                let acknowledged = Acknowledged(sender.clone());
                scope.spawn(move || {
                    let ended = catch_unwind(AssertUnwindSafe(|| client(&acknowledged)));
                    let _ = acknowledged.0.send(match ended {
                        Ok(Ok(())) => Report::Broken("it ended by itself".to_owned()),
                        Ok(Err(error)) => Report::Broken(error.to_string()),
                        Err(panic) => Report::Panicked(text_of(panic.as_ref())),
                    });
                });
            }
            drop(sender);
            let failure = wait(&reports, enough);
            self.kill();
            failure
        });
        let failure = failure.or_else(|| {
            reports.iter().find_map(|report| match report {
                Report::Panicked(why) => Some(why),
                Report::Acknowledged | Report::Broken(_) => None,
            })
        });
        if let Some(why) = failure {
            panic!("a client of the server failed: {why}");
        }
    }
}

/// Waits for acknowledgements; if there will not be enough, why.
fn wait(reports: &Receiver<Report>, enough: usize) -> Option<String> {
    for count in 0..enough {
        let so_far = || format!("before the kill, after {count} of {enough} acknowledgements");
        match reports.recv_timeout(TIMEOUT) {
            Ok(Report::Acknowledged) => {}
            Ok(Report::Broken(why) | Report::Panicked(why)) => return Some(format!("{why} ({})", so_far())),
            Err(RecvTimeoutError::Timeout) => {
                return Some(format!("no acknowledgement within {TIMEOUT:?} ({})", so_far()));
            }
            Err(RecvTimeoutError::Disconnected) => return Some(format!("there is no client ({})", so_far())),
        }
    }
    None
}

/// The message of a panic.
fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits for two acknowledgements: a client sends the first, and then this.
    fn after_one(last: Report) -> Option<String> {
        let (sender, reports) = mpsc::channel();
        Acknowledged(sender.clone()).count();
        sender.send(last).expect("a receiver");
        wait(&reports, 2)
    }

    #[test]
    fn a_client_that_ends_too_early_is_a_failure_that_says_why() {
        assert_eq!(after_one(Report::Acknowledged), None);
        for end in [Report::Broken("broken pipe".to_owned()), Report::Panicked("broken pipe".to_owned())] {
            let why = after_one(end).expect("a failure");
            assert_eq!(why, "broken pipe (before the kill, after 1 of 2 acknowledgements)");
        }
    }

    #[test]
    fn no_client_at_all_is_a_failure() {
        let (sender, reports) = mpsc::channel();
        drop(sender);
        assert!(wait(&reports, 1).is_some_and(|why| why.starts_with("there is no client")));
    }
}
