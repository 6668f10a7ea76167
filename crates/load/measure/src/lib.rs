//! The cost of a server, measured from outside.
//!
//! [`Monitor`] watches a process tree or a control group, on this machine or through an [`agent`]
//! on another one. The CPU of a process tree is that of its living processes plus that of all
//! children they have waited for. So a server that forks per connection is charged in full. A
//! control group is exact where there is one. [`own`] measures this process itself, [`machine`]
//! describes where it runs, and [`hottest`] names the functions of the server that take its CPU.
//! [`processors`] gives the server and the instrument processors of their own.
//!
//! [`Figures`] reads a server's own counts. [`Reference`] is the clock that generators share.
//!
//! A figure that is not available is "not offered here" with the reason, never a zero. Nothing here
//! knows mail.

pub mod agent;
mod cgroup;
mod clock;
mod counted;
mod deadline;
pub mod hottest;
mod link;
pub mod machine;
mod meter;
mod monitor;
pub mod own;
mod perf;
mod process;
pub mod processors;
mod sample;
mod waits;

pub use clock::Reference;
pub use counted::{Figures, Reading};
pub use meter::Meter;
pub use monitor::{Done, Monitor, rates};
pub use sample::{Sample, WatchTarget};
