//! Commands that name mailboxes, and LIST with its options: RFC 9051 §6.3.

use super::CommandPrinter;
use crate::chars::is_astring_char;
use crate::command::{
    Access, CommandBody, ListArgs, ListReturn, ListSelection, ListSyntax, Qresync, SelectParams, SeqMatch,
    StatusItem, UrlFetchItem,
};
use crate::{Annotation, Depth, EntryName, ListPattern, MailboxArg};

impl CommandPrinter {
    pub(super) fn mailbox_command(&mut self, body: &CommandBody) {
        use CommandBody as B;
        match body {
            B::Select { mailbox, access, params } => self.select(mailbox, *access, params),
            B::Create { mailbox, special_use } => {
                self.put("CREATE");
                self.sp_mailbox(mailbox);
                if !special_use.is_empty() {
                    self.put(" (USE ");
                    self.list(special_use, |p, u| p.put(&u.to_string()));
                    self.put(")");
                }
            }
            B::Delete(mailbox) => self.one_mailbox("DELETE", mailbox),
            B::Subscribe(mailbox) => self.one_mailbox("SUBSCRIBE", mailbox),
            B::Unsubscribe(mailbox) => self.one_mailbox("UNSUBSCRIBE", mailbox),
            B::Rename { from, to } => {
                self.one_mailbox("RENAME", from);
                self.sp_mailbox(to);
            }
            B::Notify(notify) => self.notify(notify),
            B::MultiSearch(args) => self.multi_search(args),
            B::List(args) => self.list_command(args),
            B::Lsub { reference, pattern } => self.listing("LSUB", reference, pattern),
            B::Rlist { reference, pattern } => self.listing("RLIST", reference, pattern),
            B::Rlsub { reference, pattern } => self.listing("RLSUB", reference, pattern),
            B::Xlist { reference, pattern } => self.listing("XLIST", reference, pattern),
            B::Status { mailbox, items } => {
                self.one_mailbox("STATUS", mailbox);
                self.put(" ");
                self.list(items, |p, item: &StatusItem| p.put(item.name()));
            }
            B::GetQuota(root) => {
                self.put("GETQUOTA");
                self.sp_astring(root);
            }
            B::GetQuotaRoot(mailbox) => self.one_mailbox("GETQUOTAROOT", mailbox),
            B::SetQuota { root, limits } => {
                self.put("SETQUOTA");
                self.sp_astring(root);
                self.put(" ");
                self.list(limits, |p, (name, limit)| {
                    p.put(name);
                    p.put(" ");
                    p.number(*limit);
                });
            }
            B::GetMetadata { mailbox, max_size, depth, entries } => {
                self.put("GETMETADATA");
                self.metadata_options(*max_size, *depth);
                self.sp_mailbox(mailbox);
                self.put(" ");
                self.list(entries, Self::entry_name);
            }
            B::SetMetadata { mailbox, entries } => {
                self.one_mailbox("SETMETADATA", mailbox);
                self.put(" ");
                self.list(entries, Self::annotation);
            }
            B::Acl(command) => {
                self.one_mailbox(command.name(), command.mailbox());
                command.words().iter().for_each(|word| self.sp_astring(word));
            }
            B::GenUrlAuth(urls) => {
                self.put("GENURLAUTH");
                for (url, mechanism) in urls {
                    self.sp_astring(url);
                    self.put(" ");
                    self.put(mechanism);
                }
            }
            B::ResetKey { mailbox, mechanisms } => {
                self.put("RESETKEY");
                if let Some(mailbox) = mailbox {
                    self.sp_mailbox(mailbox);
                }
                for mechanism in mechanisms {
                    self.put(" ");
                    self.put(mechanism);
                }
            }
            B::UrlFetch(urls) => {
                self.put("URLFETCH");
                for UrlFetchItem { url, params } in urls {
                    let Some(params) = params else {
                        self.sp_astring(url);
                        continue;
                    };
                    self.put(" (");
                    self.astring(url.as_bytes());
                    for param in params {
                        self.put(" ");
                        self.put(param.name());
                    }
                    self.put(")");
                }
            }
            B::Append { mailbox, messages } => {
                self.one_mailbox("APPEND", mailbox);
                messages.iter().for_each(|m| self.append_message(m));
            }
            other => self.message_command(other),
        }
    }

    fn listing(&mut self, name: &str, reference: &MailboxArg, pattern: &ListPattern) {
        self.one_mailbox(name, reference);
        self.put(" ");
        self.pattern(pattern);
    }

    fn one_mailbox(&mut self, name: &str, mailbox: &MailboxArg) {
        self.put(name);
        self.sp_mailbox(mailbox);
    }

    fn entry_name(&mut self, name: &EntryName) {
        self.astring(name.as_str().as_bytes());
    }

    fn metadata_options(&mut self, max_size: Option<u64>, depth: Depth) {
        let depth = Some(depth).filter(|depth| *depth != Depth::default());
        if max_size.is_none() && depth.is_none() {
            return;
        }
        self.put(" (");
        if let Some(size) = max_size {
            self.put("MAXSIZE ");
            self.number(size);
        }
        if let Some(depth) = depth {
            self.put(if max_size.is_some() { " DEPTH " } else { "DEPTH " });
            self.put(depth.name());
        }
        self.put(")");
    }

    fn annotation(&mut self, annotation: &Annotation) {
        self.entry_name(&annotation.name);
        self.put(" ");
        self.value(annotation.value.as_deref());
    }

    fn select(&mut self, mailbox: &MailboxArg, access: Access, params: &SelectParams) {
        self.one_mailbox(if access == Access::ReadOnly { "EXAMINE" } else { "SELECT" }, mailbox);
        let mut before = " (";
        for (is_set, name) in [(params.condstore, "CONDSTORE"), (params.annotate, "ANNOTATE")] {
            if is_set {
                self.put(before);
                self.put(name);
                before = " ";
            }
        }
        if let Some(qresync) = &params.qresync {
            self.put(before);
            self.qresync(qresync);
            before = " ";
        }
        if let Some(ids) = params.object_ids.as_deref() {
            self.put(before);
            match ids.0.is_empty() {
                true => self.put("OBJECTID"),
                false => crate::print::object_ids(&mut self.out, ids),
            }
            before = " ";
        }
        self.put(if before == " " { ")" } else { "" });
    }

    fn qresync(&mut self, qresync: &Qresync) {
        self.put("QRESYNC (");
        self.number(u64::from(qresync.uid_validity.value()));
        self.put(" ");
        self.number(qresync.modseq.value());
        if let Some(uids) = &qresync.known_uids {
            self.put(" ");
            self.set(&uids.0);
        }
        if let Some(SeqMatch { seqs, uids }) = &qresync.seq_match {
            self.put(" (");
            self.set(&seqs.0);
            self.put(" ");
            self.set(&uids.0);
            self.put(")");
        }
        self.put(")");
    }

    fn list_command(&mut self, args: &ListArgs) {
        self.put("LIST ");
        let selection = selection_names(args.selection);
        let returns = &args.returns;
        let any_return = *returns != ListReturn::default();
        let several = args.patterns.len() != 1;
        // Something must show that it is the extended syntax, if nothing else does.
        let must_show = args.syntax == ListSyntax::Extended && !any_return && !several;
        if !selection.is_empty() || must_show {
            self.list(selection, Self::put);
            self.put(" ");
        }
        self.astring(&args.reference.encode(self.names));
        self.put(" ");
        match args.patterns.as_slice() {
            [one] => self.pattern(one),
            several => self.list(several, Self::pattern),
        }
        if any_return {
            self.put(" RETURN ");
            let flags = [
                (returns.subscribed, "SUBSCRIBED"),
                (returns.children, "CHILDREN"),
                (returns.special_use, "SPECIAL-USE"),
                (returns.my_rights, "MYRIGHTS"),
                (!returns.status.is_empty(), "STATUS"),
                (!returns.metadata.is_empty(), "METADATA"),
            ];
            self.list(flags.into_iter().filter(|f| f.0), |p, (_, name)| {
                p.put(name);
                if name == "STATUS" {
                    p.put(" ");
                    p.list(&returns.status, |p, item| p.put(item.name()));
                }
                if name == "METADATA" {
                    p.put(" ");
                    p.list(&returns.metadata, Self::entry_name);
                }
            });
        }
    }

    /// An atom may have wildcards here (RFC 9051 §9, list-char).
    fn pattern(&mut self, pattern: &ListPattern) {
        let bytes = pattern.0.encode(self.names);
        let atom = !bytes.is_empty() && bytes.iter().all(|&b| is_astring_char(b) || matches!(b, b'*' | b'%'));
        if atom { self.out.extend_from_slice(&bytes) } else { self.string(&bytes) }
    }
}

/// The names of the options that are on.
pub(in crate::print) fn selection_names(selection: ListSelection) -> Vec<&'static str> {
    let all = [
        (selection.subscribed, "SUBSCRIBED"),
        (selection.remote, "REMOTE"),
        (selection.recursive_match, "RECURSIVEMATCH"),
        (selection.special_use, "SPECIAL-USE"),
    ];
    all.into_iter().filter(|n| n.0).map(|n| n.1).collect()
}
