//! Whether mail from other hosts is from whom it says: SPF, DKIM, ARC and DMARC, and the field in
//! which the outcome is written (RFC 8601).
//!
//! | module | what |
//! | --- | --- |
//! | [`Verifier`] | verifies one message: DNS look-ups, signatures, the policy of its author's domain |
//! | [`results`] | removes fields that claim to be ours, and puts ours in front |
//!
//! What always holds:
//! * A look-up that fails refuses no mail: only a policy that was read and says `reject` does.
//! * All look-ups of a message together have a deadline; a bound holds for signatures.
//! * The hashes of a large message are computed on a thread of their own.
//!
//! The protocols themselves are `mail-auth`'s. What is here: which are asked, in what order, with
//! what bounds, and what follows.

pub mod results;
mod verify;

pub use verify::{Action, Client, Policy, Verdict, Verifier, VerifierOptions};
