//! SEARCH, for a client: RFC 9051 §6.4.4; SORT and THREAD: RFC 5256 §3.

use posthaste_mail_model::Flag;

use super::command::CommandPrinter;
use crate::ValueScope;
use crate::command::{
    Charset, EntryScope, FetchItem, MultiSearchArgs, SearchArgs, SearchKey, SearchReturn, SortArgs, SortKey,
    ThreadArgs,
};

impl CommandPrinter {
    pub(super) fn search(&mut self, args: &SearchArgs) {
        self.numbered(args.numbering, "SEARCH");
        self.returns(args.returns, &args.update_items);
        self.program(args.charset, &args.key);
    }

    /// ESEARCH: RFC 7377 §3.
    pub(super) fn multi_search(&mut self, args: &MultiSearchArgs) {
        self.put("ESEARCH ");
        if !args.sources.is_empty() {
            self.put("IN ");
            self.list(&args.sources, Self::mailbox_filter);
            self.put(" ");
        }
        self.returns(args.returns, &args.update_items);
        self.program(args.charset, &args.key);
    }

    fn program(&mut self, charset: Option<Charset>, key: &SearchKey) {
        match charset {
            Some(Charset::UsAscii) => self.put("CHARSET US-ASCII "),
            Some(Charset::Utf8) => self.put("CHARSET UTF-8 "),
            None => {}
        }
        self.keys(key);
    }

    /// `RETURN (MIN PARTIAL 1:9) `
    fn returns(&mut self, returns: Option<SearchReturn>, update_items: &[FetchItem]) {
        let Some(returns) = returns else { return };
        let mut names = vec![
            (returns.min, "MIN"),
            (returns.max, "MAX"),
            (returns.all, "ALL"),
            (returns.count, "COUNT"),
            (returns.save, "SAVE"),
            (returns.update, "UPDATE"),
            (returns.context, "CONTEXT"),
            (returns.relevancy, "RELEVANCY"),
        ];
        names.retain(|n| n.0);
        self.put("RETURN (");
        for (i, (_, name)) in names.iter().enumerate() {
            self.put(if i > 0 { " " } else { "" });
            self.put(name);
            if *name == "UPDATE" && !update_items.is_empty() {
                self.put(" ");
                self.list(update_items, Self::fetch_item);
            }
        }
        if let Some(page) = returns.partial {
            self.put(if names.is_empty() { "" } else { " " });
            self.page(page);
        }
        self.put(") ");
    }

    fn keys(&mut self, key: &SearchKey) {
        match key {
            SearchKey::And(keys) if keys.len() > 1 => self.spaced(keys, &mut Self::search_key),
            key => self.search_key(key),
        }
    }

    /// RFC 5256 §5: the charset is never left out.
    fn criteria(&mut self, charset: Charset, key: &SearchKey) {
        self.put(match charset {
            Charset::UsAscii => " US-ASCII ",
            Charset::Utf8 => " UTF-8 ",
        });
        self.keys(key);
    }

    pub(super) fn sort(&mut self, args: &SortArgs) {
        self.numbered(args.numbering, "SORT");
        self.returns(args.returns, &args.update_items);
        self.list(&args.criteria, |p, criterion| {
            p.put(if criterion.is_reverse { "REVERSE " } else { "" });
            p.put(criterion.key.name());
            if let SortKey::Annotation(at) = criterion.key
                && let Some((entry, scope)) = args.annotations.get(usize::from(at))
            {
                p.sp_astring(entry.as_str());
                p.put(" value");
                p.put(scope.suffix());
            }
        });
        self.criteria(args.charset, &args.key);
    }

    pub(super) fn thread(&mut self, args: &ThreadArgs) {
        self.numbered(args.numbering, "THREAD");
        self.put(args.algorithm.name());
        self.criteria(args.charset, &args.key);
    }

    fn search_key(&mut self, key: &SearchKey) {
        use SearchKey as K;
        let mut text = |name: &str, text: &str| {
            self.put(name);
            self.sp_astring(text);
        };
        match key {
            K::Bcc(t) => text("BCC", t),
            K::Cc(t) => text("CC", t),
            K::From(t) => text("FROM", t),
            K::Subject(t) => text("SUBJECT", t),
            K::To(t) => text("TO", t),
            K::Body(t) => text("BODY", t),
            K::Text(t) => text("TEXT", t),
            K::Annotation(key) => {
                self.put("ANNOTATION ");
                self.entry_pattern(&key.entries);
                self.put(" value");
                self.put(key.scope.map_or("", ValueScope::suffix));
                self.put(" ");
                self.value(Some(&key.text));
            }
            K::Filter(name) => self.put(&format!("FILTER {name}")),
            K::EmailId(id) => text("EMAILID", id),
            K::ThreadId(id) => text("THREADID", id),
            K::GmLabel(label) => text("X-GM-LABELS", label),
            K::GmRaw(query) => text("X-GM-RAW", query),
            K::Header(name, value) => {
                text("HEADER", name);
                self.sp_astring(value);
            }
            K::And(keys) => match keys.as_slice() {
                [] => self.put("ALL"),
                [one] => self.search_key(one),
                several => self.list(several, Self::search_key),
            },
            K::Or(a, b) => {
                self.put("OR ");
                self.search_key(a);
                self.put(" ");
                self.search_key(b);
            }
            K::Not(a) => {
                self.put("NOT ");
                self.search_key(a);
            }
            K::Fuzzy(a) => {
                self.put("FUZZY ");
                self.search_key(a);
            }
            K::Has(flag) => self.flag_key("", flag),
            K::Lacks(flag) => self.flag_key("UN", flag),
            other => self.plain_key(other),
        }
    }

    fn flag_key(&mut self, un: &str, flag: &Flag) {
        self.put(un);
        match flag {
            Flag::Answered => self.put("ANSWERED"),
            Flag::Flagged => self.put("FLAGGED"),
            Flag::Deleted => self.put("DELETED"),
            Flag::Seen => self.put("SEEN"),
            Flag::Draft => self.put("DRAFT"),
            Flag::Keyword(k) => {
                self.put("KEYWORD ");
                self.put(k.as_str());
            }
        }
    }

    fn plain_key(&mut self, key: &SearchKey) {
        use SearchKey as K;
        match key {
            K::New => self.put("NEW"),
            K::Old => self.put("OLD"),
            K::Recent => self.put("RECENT"),
            K::SaveDateSupported => self.put("SAVEDATESUPPORTED"),
            K::Seq(set) => self.set(&set.0),
            K::Uid(set) => {
                self.put("UID ");
                self.set(&set.0);
            }
            K::UidAfter(uid) => self.put(&format!("UIDAFTER {}", uid.value())),
            K::UidBefore(uid) => self.put(&format!("UIDBEFORE {}", uid.value())),
            K::Before(d) => self.put(&format!("BEFORE {d}")),
            K::On(d) => self.put(&format!("ON {d}")),
            K::Since(d) => self.put(&format!("SINCE {d}")),
            K::SentBefore(d) => self.put(&format!("SENTBEFORE {d}")),
            K::SentOn(d) => self.put(&format!("SENTON {d}")),
            K::SentSince(d) => self.put(&format!("SENTSINCE {d}")),
            K::SavedBefore(d) => self.put(&format!("SAVEDBEFORE {d}")),
            K::SavedOn(d) => self.put(&format!("SAVEDON {d}")),
            K::SavedSince(d) => self.put(&format!("SAVEDSINCE {d}")),
            K::Larger(n) => self.put(&format!("LARGER {n}")),
            K::Smaller(n) => self.put(&format!("SMALLER {n}")),
            K::GmMessageId(n) => self.put(&format!("X-GM-MSGID {n}")),
            K::GmThreadId(n) => self.put(&format!("X-GM-THRID {n}")),
            K::Older(n) => self.put(&format!("OLDER {n}")),
            K::Younger(n) => self.put(&format!("YOUNGER {n}")),
            K::ModSeq { entry, modseq } => {
                self.put("MODSEQ ");
                if let Some(entry) = entry {
                    self.string(entry.name.as_bytes());
                    self.put(match entry.scope {
                        EntryScope::Private => " priv ",
                        EntryScope::Shared => " shared ",
                        EntryScope::All => " all ",
                    });
                }
                self.number(modseq.value());
            }
            // `ALL`, and every other key is printed by the function that calls this one.
            _ => self.put("ALL"),
        }
    }
}
