//! Maps keywords of a change to slots of the mailbox's table.
//!
//! A full table gives a new keyword the slot of a keyword that no message has. Only the rows show
//! which those are. So a change that was resolved against a head alone is then resolved again with
//! the rows.
//!
//! Invariants: a slot that a message has, or that this change gives one, keeps its keyword.

use std::sync::Arc;

use posthaste_mail_model::{Flag, FlagSet, Keyword, KeywordError, KeywordTable};

use super::base::Base;

/// Keywords that are recorded as left out. Each is compared with those before it, and a command or
/// an import can name many thousands.
const LEFT_OUT_MAX: usize = 128;

/// A keyword table while a change is resolved.
pub(super) struct Slots {
    table: Arc<KeywordTable>,
    /// Flags that any message has or gets; all possible flags where no rows are known.
    in_use: FlagSet,
    /// The first keywords that did not fit into the table.
    left_out: Vec<Keyword>,
}

impl Slots {
    pub fn new(base: &Base) -> Self {
        let in_use = match base {
            Base::View(view) => view.totals().flags_any,
            Base::Head(_) => FlagSet::ALL,
        };
        Self { table: Arc::clone(&base.head().keywords), in_use, left_out: Vec::new() }
    }

    /// The set of flags for a message. Keywords that do not fit are left out, and the first of
    /// them recorded.
    pub fn set_of(&mut self, flags: &[Flag]) -> FlagSet {
        let mut set = FlagSet::EMPTY;
        for flag in flags {
            match self.bit_of(flag) {
                Ok(bit) => set = set.union(bit),
                Err(_) => self.leave_out(flag),
            }
        }
        set
    }

    /// The set of one flag, whose keyword gets a slot if it has none.
    pub fn bit_of(&mut self, flag: &Flag) -> Result<FlagSet, KeywordError> {
        let bit = match (self.table.set_of(flag), flag) {
            (Some(bit), _) => bit,
            // The table is copied only for a keyword that is new.
            (None, Flag::Keyword(keyword)) => {
                FlagSet::keyword(Arc::make_mut(&mut self.table).slot_or_insert(keyword, self.in_use)?)
            }
            (None, _) => FlagSet::EMPTY,
        };
        self.in_use = self.in_use.union(bit);
        Ok(bit)
    }

    fn leave_out(&mut self, flag: &Flag) {
        if let Flag::Keyword(keyword) = flag
            && self.left_out.len() < LEFT_OUT_MAX
            && !self.left_out.contains(keyword)
        {
            self.left_out.push(keyword.clone());
        }
    }

    /// Whether a keyword did not fit.
    pub fn lacks_room(&self) -> bool {
        !self.left_out.is_empty()
    }

    /// The table after the change, and the first keywords that did not fit.
    pub fn into_parts(self) -> (Arc<KeywordTable>, Vec<Keyword>) {
        (self.table, self.left_out)
    }
}
