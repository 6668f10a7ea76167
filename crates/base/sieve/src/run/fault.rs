//! Why a run ends before its script does.

use crate::meter::Spent;

/// The reason why a run ends early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault(pub(crate) String);

impl Fault {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Fault(message.into())
    }
}

impl From<Spent> for Fault {
    fn from(spent: Spent) -> Self {
        Fault(spent.to_string())
    }
}
