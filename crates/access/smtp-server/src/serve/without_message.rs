//! Commands of clients that send no message and do not log in.

use std::time::Duration;

use posthaste_net::CommandsBeforeLogin;

/// Commands of a client that has not logged in, since its last message.
#[derive(Default)]
pub(super) struct WithoutMessage {
    recipients: usize,
    others: CommandsBeforeLogin,
}

impl WithoutMessage {
    /// Counts a command. How long it has to wait, if it has to. The recipients of one message do
    /// not count, and neither do the later chunks of one.
    pub(super) fn count(&mut self, verb: &str, recipients_max: usize) -> Option<Duration> {
        if verb == "RCPT" && self.recipients < recipients_max {
            self.recipients += 1;
            return None;
        }
        self.others.count()
    }
}
