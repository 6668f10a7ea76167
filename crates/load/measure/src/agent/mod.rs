//! The agent: runs beside a server on another machine and gives the instrument its figures.
//!
//! [`serve`] is the agent's end, [`Remote`] the instrument's, and [`wire`] their protocol. A
//! request is a process number and nothing else: an agent gives figures of processes, it runs
//! nothing.

mod remote;
mod serve;
mod wire;

pub(crate) use remote::Remote;
pub use serve::{AgentOptions, serve};
