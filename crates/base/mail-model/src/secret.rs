//! A value that must not reach a log.

use std::fmt;

/// Prints as `[secret]`. A call with an explicit name reads it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// Hides a value.
    pub const fn new(value: T) -> Self {
        Self(value)
    }
    /// The value, for the one place that needs it.
    pub const fn expose(&self) -> &T {
        &self.0
    }
    /// The value itself.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}
