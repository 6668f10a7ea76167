//! Programs of others: TNEF that they wrote, and what they read in ours.

mod foreign;
#[cfg(feature = "samples")]
mod judges;
