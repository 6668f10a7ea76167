//! A runtime of one thread.

use std::io;
use std::pin::{Pin, pin};

/// As tokio's. Its code to wait for a future is long, and would be compiled for each type of
/// future.
#[derive(Debug)]
pub(crate) struct Runtime(tokio::runtime::Runtime);

impl Runtime {
    /// Without timers and sockets: what is simulated needs none.
    pub(crate) fn new() -> io::Result<Self> {
        tokio::runtime::Builder::new_current_thread().build().map(Self)
    }

    /// Runs a future until it is ready. All with the same type of result share their code.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let future: Pin<&mut dyn Future<Output = T>> = pin!(future);
        self.0.block_on(future)
    }
}
