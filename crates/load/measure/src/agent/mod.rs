//! The agent: runs on the machine of a server and gives the instrument its figures.
//!
//! [`serve`] is the agent's end, [`Remote`] the instrument's, and [`wire`] their protocol. A
//! request contains only a process number: an agent reports figures of processes, and runs no
//! programs.

mod proof;
mod remote;
mod serve;
mod wire;

pub(crate) use remote::Remote;
pub use serve::{AgentOptions, serve};
