//! Verifies the senders of mail from other hosts: SPF, DKIM, ARC and DMARC, and the field that
//! records the outcome (RFC 8601). Lets other hosts verify our mail: keys, signatures, DNS records.
//!
//! | module | what |
//! | --- | --- |
//! | [`DomainKeys`] | the keys of a domain that this server sends for |
//! | [`Signer`] | signs outgoing mail, seals forwarded mail (ARC) |
//! | [`Senders`], [`srs`] | senders of forwarded mail, so that SPF passes |
//! | [`dns`] | the records that a domain must publish, and the check of them |
//! | [`sts`] | the policy about TLS that is published for such a domain |
//! | [`Verifier`] | verifies one message: DNS look-ups, signatures, the policy of its author's domain |
//! | [`results`] | removes fields with our name that others wrote, and puts ours in front |
//!
//! Invariants:
//! * A failed look-up refuses no mail. Only a policy that was read and says `reject` does.
//! * All look-ups of a message together have a deadline. There are bounds for its header, its
//!   signatures, and the text written about them.
//! * Messages are verified on threads of their own. The number at a time has a limit, and a lower
//!   one for each network. Their memory is a part of a budget, in which each network has a share.
//!
//! The crate `mail-auth` does the verification itself. This crate decides the methods, their order,
//! their bounds and the consequences. It makes the signatures itself, because `mail-auth` cannot
//! name a field once more than it occurs.

mod arc;
mod bounds;
mod canonical;
pub mod dns;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod header;
mod keys;
mod memory;
pub mod results;
mod senders;
mod shown;
mod sign;
mod signature;
pub mod srs;
pub mod sts;
mod threads;
mod verify;

pub use canonical::has_bare_cr;
pub use header::{changing_header, reading_header};
pub use keys::{Algorithm, DomainKey, DomainKeys, KeyError, KeyState};
pub use memory::ReservedMemory;
pub use senders::Senders;
pub use sign::{NamedSender, Origin, SENDER_ADDRESSES_MAX, Signer, named_senders};
pub use threads::Verifications;
pub use verify::{Action, Busy, Client, Observed, Policy, Verdict, Verified, Verifier, VerifierOptions};
