//! The refusal of a message by a recipient's script (RFC 5429).

use std::collections::HashSet;
use std::sync::atomic::AtomicUsize;

use posthaste_mail_model::AccountId;

/// Octets of the reasons that a script gives for one message, which may have a thousand addresses
/// of its account. A reply shows 40 KB of one reason. What comes after these octets is cut.
pub(crate) const REASONS_LEN_MAX: usize = 64 * 1024;

/// Octets of the reasons of all accounts for one message, which is held until all scripts have
/// run. A message may name a thousand accounts. Sixteen accounts may give their longest reasons.
pub(crate) const ALL_REASONS_LEN_MAX: usize = 16 * REASONS_LEN_MAX;

/// Why a script refuses a message.
#[derive(Debug, Clone)]
pub(crate) struct ScriptRefusal {
    pub(crate) reason: String,
    /// `ereject`: by the protocol wherever possible (RFC 5429 §2.1).
    pub(crate) is_strict: bool,
}

impl ScriptRefusal {
    /// Cuts the reason to the octets that are left for reasons.
    pub(crate) fn cut(&mut self, left: &mut usize) {
        self.reason.truncate(self.reason.floor_char_boundary(*left));
        self.reason.shrink_to_fit();
        *left -= self.reason.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_cut_at_a_letter() {
        let mut left = 6;
        let mut cut = || {
            let mut refusal = ScriptRefusal { reason: "näh".to_owned(), is_strict: false };
            refusal.cut(&mut left);
            refusal.reason
        };
        assert_eq!([cut(), cut(), cut()], ["näh", "n", "n"]);
        assert_eq!([cut(), left.to_string()], ["", "0"]);
    }
}

/// The reports of the refusals of one message. It may name an account by a thousand addresses, and
/// each may refuse it.
#[derive(Debug, Default)]
pub(crate) struct RefusalReports {
    /// Those that were sent.
    pub(crate) sent: AtomicUsize,
    /// The accounts that have the message, because a refusal could not be reported.
    pub(crate) kept: HashSet<AccountId>,
}
