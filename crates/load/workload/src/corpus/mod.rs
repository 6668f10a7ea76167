//! The mail the instrument sends: a function of a seed and a serial number, so that a fetched
//! message can be checked.
//!
//! Every message begins with its serial and with a digest of everything after the digest's line.
//! Servers may put trace headers before that; any other change is found by [`Verifier`]. A server
//! may also serve rich mail as the MIME that our own converter makes of it.

mod digest;
mod message;
mod pool;
mod rich;
mod shares;
mod sizes;
mod source;

pub use digest::{Verdict, Verifier, serial_in_header, serial_token};
pub use message::{Corpus, Envelope};
pub use shares::Shares;
pub use sizes::Sizes;
pub use source::{SourceError, UserMail};

/// The number of a message: unique in a run. 0 is none.
pub type Serial = u64;

/// Serials of populated messages: account, folder, number.
pub fn populated_serial(account: u32, folder: u32, number: u32) -> Serial {
    // 23 bits of account, 8 of folder, 32 of number; the top bit is that of sent messages.
    (u64::from(account) & 0x7f_ffff) << 40 | (u64::from(folder) & 0xff) << 32 | (u64::from(number) + 1)
}

/// Serials of messages sent during a run: a run's nonce, a thread, a number.
pub fn sent_serial(nonce: u32, thread: u8, number: u32) -> Serial {
    1 << 63 | (u64::from(nonce) & 0x7f_ffff) << 40 | u64::from(thread) << 32 | u64::from(number)
}
