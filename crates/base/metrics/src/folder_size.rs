//! Classes of folders by their number of messages.

use std::fmt;

/// The class of the folder that a session has selected: `Upto(n)` has at most `n` messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FolderSize {
    /// No folder is selected, or the protocol has no folders.
    #[default]
    None,
    /// At most 100 messages.
    Upto100,
    /// At most 1,000.
    Upto1000,
    /// At most 5,000.
    Upto5000,
    /// At most 10,000.
    Upto10000,
    /// At most 20,000.
    Upto20000,
    /// At most 50,000.
    Upto50000,
    /// At most 100,000.
    Upto100000,
    /// At most 1,000,000.
    Upto1000000,
    /// More than that.
    Over1000000,
}

impl FolderSize {
    /// The classes, in the order of their sizes.
    pub const ALL: [Self; 10] = [
        Self::None,
        Self::Upto100,
        Self::Upto1000,
        Self::Upto5000,
        Self::Upto10000,
        Self::Upto20000,
        Self::Upto50000,
        Self::Upto100000,
        Self::Upto1000000,
        Self::Over1000000,
    ];

    /// The class of a folder with this many messages.
    pub fn of(messages: u32) -> Self {
        Self::ALL[1..]
            .iter()
            .copied()
            .find(|class| class.most().is_none_or(|most| messages <= most))
            .unwrap_or(Self::Over1000000)
    }

    /// The most messages of the class. `None` for no folder and for the class without a bound.
    pub const fn most(self) -> Option<u32> {
        Some(match self {
            Self::None | Self::Over1000000 => return None,
            Self::Upto100 => 100,
            Self::Upto1000 => 1_000,
            Self::Upto5000 => 5_000,
            Self::Upto10000 => 10_000,
            Self::Upto20000 => 20_000,
            Self::Upto50000 => 50_000,
            Self::Upto100000 => 100_000,
            Self::Upto1000000 => 1_000_000,
        })
    }
}

impl fmt::Display for FolderSize {
    /// The bound, as a label of a metric: `100`, `+Inf`, and `none` without a folder.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.most()) {
            (Self::None, _) => f.write_str("none"),
            (_, Some(most)) => write!(f, "{most}"),
            (_, None) => f.write_str("+Inf"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bound_is_the_last_of_its_class() {
        for class in FolderSize::ALL {
            if let Some(most) = class.most() {
                assert_eq!(FolderSize::of(most), class);
                assert!(FolderSize::of(most + 1) > class);
            }
        }
        assert_eq!(FolderSize::of(0), FolderSize::Upto100);
        assert_eq!(FolderSize::of(u32::MAX).to_string(), "+Inf");
    }
}
