//! Studies: whole experiments as data, from starting servers to the report.
//!
//! A study file ([`file`]) says what is swept; [`plan`] makes points of it and says how long they
//! take; [`server`] starts the servers under test and stops them; [`conduct`] fills mailboxes and
//! measures every point; [`analysis`] draws curves and conclusions from them. The built-in studies
//! ([`BUILTIN`]) are files like any other.
//!
//! The study of storage formats comes with the formats.

pub mod analysis;
mod conduct;
mod file;
mod plan;
pub mod server;

pub use conduct::{Options, conduct};
pub use file::{Analysis, Load, Profile, Study, Times, load};
pub use plan::{Plan, PlannedPoint, Population, Stage};

/// Name and file of each built-in study.
pub const BUILTIN: &[(&str, &str)] = &[
    ("item-count", include_str!("../../studies/item-count.toml")),
    ("mailbox-size", include_str!("../../studies/mailbox-size.toml")),
    ("koka", include_str!("../../studies/koka.toml")),
    ("memory", include_str!("../../studies/memory.toml")),
    ("compare", include_str!("../../studies/compare.toml")),
];
