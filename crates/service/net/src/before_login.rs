//! Commands of clients that have not logged in. The first ones are taken as they come. Later ones
//! have to wait, so that many clients that never pause leave the processors to others.

use std::time::Duration;

/// Commands that are taken without a wait. A login takes ten, with TLS, two mechanisms and a
/// mistyped password.
const AT_ONCE: u32 = 50;

/// The wait before each later one. The hundred clients that one address may have together give two
/// commands in a millisecond, which take a twentieth of a processor at most.
const WAIT: Duration = Duration::from_millis(50);

/// Counts the commands of one client before its login, or before its next message.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommandsBeforeLogin(u32);

impl CommandsBeforeLogin {
    /// Counts a command. How long it has to wait, if it has to.
    pub fn count(&mut self) -> Option<Duration> {
        self.0 = self.0.saturating_add(1);
        (self.0 > AT_ONCE).then_some(WAIT)
    }

    /// The client has logged in, or sent a message.
    pub fn end(&mut self) {
        self.0 = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_commands_do_not_wait() {
        let mut commands = CommandsBeforeLogin::default();
        for _ in 0..2 {
            assert!((0..AT_ONCE).all(|_| commands.count().is_none()));
            assert!((0..1000).all(|_| commands.count() == Some(WAIT)));
            commands.end();
        }
    }
}
