//! Choices, and values made of others, whose types do not name the types of their parts. The
//! compiler makes the code of each type of strategy again, and a chain of combinators has a new
//! type at each link.

use std::fmt::Debug;

use proptest::prelude::*;
use proptest::strategy::Union;

/// What `prop_oneof!` chooses, with the same random numbers: by weight, and shrinking towards the
/// first. It is a `BoxedStrategy`.
#[macro_export]
macro_rules! one_of {
    ($($weight:literal => $choice:expr),+ $(,)?) => {
        $crate::weighted(::std::vec![$(($weight, $crate::erased($choice))),+])
    };
    ($($choice:expr),+ $(,)?) => {
        $crate::one_of![$(1 => $choice),+]
    };
}

/// One of these, by their weights.
pub fn weighted<T: Debug + 'static>(choices: Vec<(u32, BoxedStrategy<T>)>) -> BoxedStrategy<T> {
    Union::new_weighted(choices).boxed()
}

/// Strategies for values that a function makes of others.
pub trait Makes<Source> {
    /// As `prop_map`, but all functions from one type to another share their code.
    fn makes<Made: Debug + 'static>(self, make: fn(Source) -> Made) -> BoxedStrategy<Made>;
}

impl<Source: Debug + 'static> Makes<Source> for BoxedStrategy<Source> {
    fn makes<Made: Debug + 'static>(self, make: fn(Source) -> Made) -> BoxedStrategy<Made> {
        self.prop_map(make).boxed()
    }
}
