//! A server that does almost nothing. It serves to calibrate the instrument, and to prove that the
//! instrument detects faults.
//!
//! Mail is in memory, answers are copied, nothing is synced. It knows just the IMAP and LMTP that
//! the instrument speaks. With [`Faults`] it acknowledges mail and drops it, alters a body, or
//! delays a command.

mod imap;
mod lmtp;
mod sink;
mod store;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::net::TcpListener;

pub use sink::{Taken, sink};
use store::Store;

/// Its faults.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// One message in this many is acknowledged and dropped; 0 for none.
    pub lose_one_in: u32,
    /// One body in this many has a byte changed.
    pub alter_one_in: u32,
    /// A command that is delayed: its name, for how long, one in this many.
    pub delay: Option<(&'static str, Duration, u32)>,
    /// Answers a FETCH of more than one message without the last.
    pub short_listings: bool,
    /// Closes the connection in the middle of one answer in this many.
    pub hang_up_one_in: u32,
    /// Answers garbage to one command in this many.
    pub garbage_one_in: u32,
    /// Refuses every login.
    pub refuse_logins: bool,
}

/// State shared by its connections.
struct Server {
    store: Store,
    faults: Faults,
    counters: [AtomicU32; 5],
}

/// Kinds of faults that are counted.
#[derive(Clone, Copy)]
enum Fault {
    Lose,
    Alter,
    Delay,
    HangUp,
    Garbage,
}

impl Server {
    /// Whether this time is the one in this many.
    fn strikes(&self, fault: Fault, one_in: u32) -> bool {
        one_in > 0
            && (self.counters[fault as usize].fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(one_in)
    }
}

/// Where a null server listens; it ends with the program.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// IMAP, without TLS.
    pub imap: SocketAddr,
    /// LMTP.
    pub lmtp: SocketAddr,
}

/// Starts one on free ports of loopback, on a thread of its own.
pub fn start(faults: Faults) -> io::Result<Addresses> {
    let imap = std::net::TcpListener::bind("127.0.0.1:0")?;
    let lmtp = std::net::TcpListener::bind("127.0.0.1:0")?;
    let addresses = Addresses { imap: imap.local_addr()?, lmtp: lmtp.local_addr()? };
    imap.set_nonblocking(true)?;
    lmtp.set_nonblocking(true)?;
    let server = Arc::new(Server { store: Store::default(), faults, counters: Default::default() });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("null-server".into()).spawn(move || {
        runtime.block_on(async move {
            let (Ok(imap), Ok(lmtp)) = (TcpListener::from_std(imap), TcpListener::from_std(lmtp)) else {
                return;
            };
            loop {
                let server = server.clone();
                tokio::select! {
                    Ok((stream, _)) = imap.accept() => { tokio::spawn(imap::serve(stream, server)); }
                    Ok((stream, _)) = lmtp.accept() => { tokio::spawn(lmtp::serve(stream, server)); }
                }
            }
        });
    })?;
    Ok(addresses)
}
