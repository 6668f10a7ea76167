//! SIGINT and SIGTERM while a command works: it ends between two steps and reports what it did.

use std::pin::pin;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Result;

/// The signal that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupted {
    /// SIGINT: Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

impl Interrupted {
    /// The number of the signal.
    pub fn number(self) -> u8 {
        let kind = match self {
            Self::Interrupt => SignalKind::interrupt(),
            Self::Terminate => SignalKind::terminate(),
        };
        u8::try_from(kind.as_raw_value()).unwrap_or_default()
    }
}

/// From its beginning on, these signals do not end the process by themselves.
pub struct Interruption {
    interrupt: Signal,
    terminate: Signal,
}

impl Interruption {
    /// Waits for the signals from now on.
    pub fn begin() -> Result<Self> {
        let (interrupt, terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(Self { interrupt, terminate })
    }

    /// The next signal.
    pub async fn wait(&mut self) -> Interrupted {
        tokio::select! {
            _ = self.interrupt.recv() => Interrupted::Interrupt,
            _ = self.terminate.recv() => Interrupted::Terminate,
        }
    }

    /// The signal that comes within this time, or came before.
    pub async fn within(&mut self, time: Duration) -> Option<Interrupted> {
        // Signals are seen where the runtime waits.
        tokio::task::yield_now().await;
        tokio::select! {
            biased;
            signal = self.wait() => Some(signal),
            () = tokio::time::sleep(time) => None,
        }
    }

    /// Does a step to its end. A second signal does not wait for that.
    pub async fn finish_or_stop<T>(&mut self, step: impl Future<Output = T>) -> Result<T, Interrupted> {
        let mut step = pin!(step);
        let first = tokio::select! {
            biased;
            done = &mut step => return Ok(done),
            signal = self.wait() => signal,
        };
        tokio::select! {
            biased;
            _ = &mut step => {}
            _ = self.wait() => {}
        }
        Err(first)
    }
}
