//! Hostile clients against the real server over real sockets.
//!
//! ```text
//! Stage: a server of its own, seven accounts, and one for each first login
//!   ├── attacks: one at a time, each a row of the table
//!   ├── Neighbour: fetches all the while; its answers are checked
//!   └── Gauge: the server's memory and CPU time, from /proc
//! ```
//!
//! [`sessions`] are the other half: several clients at once whose commands a seed makes from the
//! grammar, and a neighbour whose mailbox has a model.
//!
//! Counts, answers and memory decide in the test command. Times decide only in `scripts/hostile`
//! and `scripts/fuzz-sessions --times`, where nothing else runs on the machine.

mod attacks;
mod corpus;
mod gate;
mod gauge;
mod neighbour;
mod row;
pub mod sessions;
mod stage;
mod times;

pub use attacks::{ATTACKS, Attack};
pub use corpus::{HostileMessage, hostile_messages};
pub use gate::{Closed, Gate};
pub use gauge::Gauge;
pub use neighbour::Neighbour;
pub use posthaste_testkit::Poll;
pub use row::{Row, Rules, try_attack};
pub use stage::{Scale, Stage};
pub use times::{Limits, Times};
