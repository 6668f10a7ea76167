//! Whether mail from other hosts is from whom it says: SPF, DKIM, ARC and DMARC, and the field in
//! which the outcome is written (RFC 8601). And that others can say so of ours: keys, signatures,
//! DNS records.
//!
//! | module | what |
//! | --- | --- |
//! | [`DomainKeys`] | the keys of a domain that this server sends for |
//! | [`Signer`] | signs mail that leaves, seals mail that is sent on (ARC) |
//! | [`Senders`], [`srs`] | senders of mail that is sent on, so that SPF holds |
//! | [`dns`] | the records that a domain publishes, and whether it does |
//! | [`sts`] | the policy about TLS that is published for such a domain |
//! | [`Verifier`] | verifies one message: DNS look-ups, signatures, the policy of its author's domain |
//! | [`results`] | removes fields that claim to be ours, and puts ours in front |
//!
//! What always holds:
//! * A look-up that fails refuses no mail: only a policy that was read and says `reject` does.
//! * All look-ups of a message together have a deadline. Bounds hold for its header, for signatures
//!   and for what is written about them.
//! * Messages are verified on threads of their own, so many at a time and fewer of each network;
//!   their memory is paid for.
//!
//! The verification itself is `mail-auth`'s. What is here: which methods are asked, in what order,
//! with what bounds, and what follows. The signatures are made here, as `mail-auth` cannot name a
//! field once more than it is there.

mod arc;
mod bounds;
mod canonical;
pub mod dns;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod keys;
mod places;
pub mod results;
mod senders;
mod sign;
mod signature;
pub mod srs;
pub mod sts;
mod verify;

pub use canonical::has_bare_cr;
pub use keys::{Algorithm, DomainKey, DomainKeys, KeyError, KeyState};
pub use senders::Senders;
pub use sign::{Origin, Signer, authors};
pub use verify::{Action, Busy, Client, Observed, Policy, Verdict, Verified, Verifier, VerifierOptions};
