//! Copies that share the summary of the message from which they were copied.
//!
//! COPY of many neighbours writes no summaries but *links*: records of 56 bytes that name the
//! message whose summary is theirs, the *origin*. A copy of a copy links to the first origin, so
//! that there is one step at most. A read follows links with a second cursor that walks along the
//! origins. They are neighbours, too: other copies get no links, unless their summaries are long.
//!
//! *Notes* have the links by their origins. Before maintenance removes an origin, the copies that
//! link to it get summaries of their own ([`detach`]). A note covers 64 UIDs at most, so that the
//! notes of an origin are found in one short walk, however many there are.

mod detach;
mod follow;
mod note;
mod put;
mod walk;

pub(crate) use detach::{detach, forget, has_origin};
pub(crate) use follow::Follow;
pub(crate) use note::noted;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use note::read_any;
pub(crate) use put::{origins_of, put_links};
pub(crate) use walk::{GAP, runs};
