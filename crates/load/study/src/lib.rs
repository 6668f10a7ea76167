//! Studies: whole experiments as data, from starting servers to their conclusions.
//!
//! A study file ([`load`]) names the swept values. [`Plan`] makes points of them, with the time
//! that each takes. `server` starts the servers under test and stops them. [`conduct()`] fills
//! mailboxes and measures every point. `analysis` draws curves and conclusions from them. A long
//! study is measured in several sittings ([`conduct_on`], [`may_resume`]). The built-in studies
//! ([`BUILTIN`]) are files like any other.

mod agenda;
mod analysis;
mod arms;
mod bounds;
mod by_kind;
mod columns;
mod conduct;
mod estimate;
mod file;
mod kinds;
mod mailbox_size;
mod needs;
mod options;
mod plan;
mod pools;
mod product;
mod resume;
mod server;
mod settings;
mod totals;

pub use analysis::{Judgement, judge};
pub use columns::expand;
pub use conduct::{conduct, conduct_on, may_begin};
pub use file::{Analysis, Study, load};
pub use needs::refuse_lacking;
pub use options::{Course, Options};
pub use plan::Plan;
pub use resume::{Versions, may_resume};
pub use server::{Build, Cassandra, CassandraPlace, Running, ServerChoice, Watched};
pub use totals::Data;

/// The version of a study: its length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Length {
    /// As its article did it.
    #[default]
    Full,
    /// Minutes, with the same shape.
    Quick,
    /// Seconds, for tests: it measures nothing worth reading.
    Shortest,
}

/// Name and file of each built-in study.
pub const BUILTIN: &[(&str, &str)] = &[
    ("item-count", include_str!("../studies/item-count.toml")),
    ("mailbox-size", include_str!("../studies/mailbox-size.toml")),
    ("koka", include_str!("../studies/koka.toml")),
    ("memory", include_str!("../studies/memory.toml")),
    ("pop3", include_str!("../studies/pop3.toml")),
    ("compare", include_str!("../studies/compare.toml")),
    ("operations", include_str!("../studies/operations.toml")),
    ("regress", include_str!("../studies/regress.toml")),
    ("storage-format", include_str!("../studies/storage-format.toml")),
    ("scale-out", include_str!("../studies/scale-out.toml")),
    ("online-and-cached", include_str!("../studies/online-and-cached.toml")),
];
