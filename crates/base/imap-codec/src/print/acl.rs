//! Responses of access control lists: RFC 4314 §3.6 – §3.8.

use posthaste_mail_model::Rights;

use super::astring;
use crate::{AclData, NameEncoding};

impl AclData {
    /// Appends it without `* ` and the line end.
    pub(crate) fn print(&self, out: &mut Vec<u8>, names: NameEncoding) {
        let word = |out: &mut Vec<u8>, text: &str| {
            out.push(b' ');
            astring(out, text.as_bytes());
        };
        match self {
            Self::Acl { mailbox, entries } => {
                out.extend_from_slice(b"ACL ");
                super::mailbox(out, mailbox, names);
                for (identifier, rights) in entries {
                    word(out, identifier);
                    word(out, &rights.with_old());
                }
            }
            Self::ListRights { mailbox, identifier, required, optional } => {
                out.extend_from_slice(b"LISTRIGHTS ");
                super::mailbox(out, mailbox, names);
                word(out, identifier);
                word(out, &required.with_old());
                optional.iter().for_each(|set| word(out, &set.to_string()));
                // RFC 4314 §2.1.1, §3.7: for clients that know only RFC 2086. No right is in two
                // sets.
                let any = optional.iter().fold(Rights::NONE, |any, set| any.union(*set));
                for (old, letter) in [(Rights::OLD_CREATE, "c"), (Rights::OLD_DELETE, "d")] {
                    if any.intersects(old) && !required.intersects(old) {
                        word(out, letter);
                    }
                }
            }
            Self::MyRights { mailbox, rights } => {
                out.extend_from_slice(b"MYRIGHTS ");
                super::mailbox(out, mailbox, names);
                word(out, &rights.with_old());
            }
        }
    }
}
