//! A server that does almost nothing. It serves to calibrate the instrument, and to prove that the
//! instrument detects faults.
//!
//! Mail is in memory, answers are copied, nothing is synced. It knows just the IMAP and LMTP that
//! the instrument speaks. With [`Faults`] it acknowledges mail and drops it, alters a body, or
//! delays a command.

mod imap;
mod lmtp;
mod onward;
mod server;
mod sink;
mod store;
mod waits;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;

use server::Server;
use store::Store;

pub use server::Faults;
pub use sink::{Relay, SinkCounts, sink};

/// The addresses of a null server; it ends with the program.
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
