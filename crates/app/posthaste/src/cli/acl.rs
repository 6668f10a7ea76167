//! `posthaste acl`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum Acl {
    /// Grant an account rights in a mailbox of another account, or revoke them. Applies at once.
    #[command(after_long_help = SET_EXAMPLES)]
    Set {
        /// The account whose mailbox it is.
        owner: String,
        /// The mailbox, as its owner names it.
        mailbox: String,
        /// The account that gets the rights, or `anyone` for all accounts. `-NAME` denies NAME
        /// rights that it would have by `anyone`.
        #[arg(allow_hyphen_values = true)]
        who: String,
        /// Letters of rights. A `+` in front adds them, a `-` removes them.
        #[arg(allow_hyphen_values = true)]
        rights: String,
    },
    /// Show who has which rights, a line each: mailbox, who, rights.
    Show {
        /// The account whose mailboxes they are.
        owner: String,
        /// Only this mailbox.
        mailbox: Option<String>,
        /// As JSON, a line each.
        #[arg(long)]
        json: bool,
    },
    /// Revoke all rights of an account in a mailbox.
    Remove {
        /// The account whose mailbox it is.
        owner: String,
        /// The mailbox, as its owner names it.
        mailbox: String,
        /// The account, `anyone` or `-NAME`, as `show` names it.
        #[arg(allow_hyphen_values = true)]
        who: String,
    },
}

const SET_EXAMPLES: &str = "\
Rights (RFC 4314):
  l  see it in LIST             r  open it, read messages     s  change \\Seen
  w  change other flags         i  add messages               p  post (reserved)
  k  create mailboxes below it  x  delete or rename it        t  change \\Deleted
  e  expunge                    a  change these rights

Examples:
  posthaste acl set ana@example.org Projects bo@example.org lrs
  posthaste acl set ana@example.org Projects bo@example.org +wite
  posthaste account add --shared sales@example.org
  posthaste acl set sales@example.org INBOX anyone lrs";
