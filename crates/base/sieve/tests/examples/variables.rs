//! RFC 5229 and regular expressions: what texts become is shown by the mailbox.

use super::{Example, PLAIN};

const LIST: &str = "From: Dave <dave@example.net>\nTo: coyote@example.com\nList-ID: Talk of birds <birds@lists.example.org>\n\
    Subject: [acme-users] [fwd] version 1.0 is out\n\nx\n";

/// IEEE Std 1003.1, XBD §9.1: each part, from left to right, matches the longest text that it can.
const GLIBC: &str = "its regexec has the longest match, and not always the longest first group";

pub(super) const EXAMPLES: &[Example] = &[
    Example::new(
        "5229 §3 set",
        "variables,fileinto",
        "set \"honorific\" \"Mr\"; set \"first_name\" \"Wile\"; set \"last_name\" text:\nCoyote\n.\n;\n\
         fileinto \"${honorific} ${first_name}\";",
        PLAIN,
        &["store Mr Wile"],
    ),
    Example::new(
        "5229 §3 what is no reference stays",
        "variables,fileinto",
        "set \"company\" \"ACME\"; fileinto \"&%${}!-${doh!}-$-${company-${company}${COMPANY}\";",
        PLAIN,
        &["store &%${}!-${doh!}-$-${company-ACMEACME"],
    ),
    Example::new(
        "5229 §3 an unknown variable is empty",
        "variables,fileinto",
        "fileinto \"a${none}b${9}\";",
        PLAIN,
        &["store ab"],
    ),
    Example::new(
        "5229 §3 a value is not expanded again",
        "variables,fileinto",
        "set \"dollar\" \"$\"; set \"a\" \"x\"; fileinto \"${dollar}{a}\";",
        PLAIN,
        &["store ${a}"],
    ),
    Example::new(
        "5229 §3.2 match variables",
        "variables,fileinto",
        "if header :matches \"List-ID\" \"*<*@*\" { fileinto \"INBOX.lists.${2}\"; }",
        LIST,
        &["store INBOX.lists.birds"],
    ),
    Example::new(
        "5229 §3.2 the first wildcard takes least",
        "variables,fileinto",
        "if header :matches \"subject\" \"[*] *\" { set \"a\" \"${1}\"; }\n\
         if header :matches \"subject\" \"*[fwd] *\" { set \"b\" \"${2}\"; }\nfileinto \"${a}: ${b}\";",
        LIST,
        &["store acme-users: version 1.0 is out"],
    ),
    Example::new(
        "5229 §3.2 a test that fails keeps them",
        "variables,fileinto",
        "if address :matches :localpart \"from\" \"d?v?\" { if header :matches \"subject\" \"none*\" { stop; } }\n\
         fileinto \"${1}${2}${0}\";",
        LIST,
        &["store aedave"],
    ),
    Example::new(
        "5229 §4.1 modifiers",
        "variables,fileinto",
        "set \"a\" \"juMBlEd lETteRS\"; set :length \"b\" \"${a}\"; set :lower \"c\" \"${a}\"; set :upperfirst \"d\" \"${a}\";\n\
         set :upperfirst :lower \"e\" \"${a}\"; fileinto \"${b}|${c}|${d}|${e}\";",
        PLAIN,
        &["store 15|jumbled letters|JuMBlEd lETteRS|Jumbled letters"],
    ),
    Example::new(
        "5229 §4.1 quotewildcard",
        "variables,fileinto",
        "set :quotewildcard \"a\" \"Rock* or?\"; set :upper :lowerfirst \"b\" \"wile\"; fileinto \"${a} ${b}\";",
        PLAIN,
        &["store Rock\\* or\\? wILE"],
    ),
    Example::new(
        "5229 §5 string",
        "variables,fileinto",
        "set \"state\" \"${state} pending\"; if string :matches \" ${state} \" \"* pending *\" { fileinto \"P\"; }",
        PLAIN,
        &["store P"],
    ),
    Example::new(
        "5229 §5 count of texts that are not empty",
        "variables,relational,comparator-i;ascii-numeric,fileinto",
        "set \"a\" \"x\"; if string :count \"eq\" :comparator \"i;ascii-numeric\" [\"${a}\", \"${none}\", \"b\"] \"2\" { fileinto \"Two\"; }",
        PLAIN,
        &["store Two"],
    ),
    Example::new(
        "draft-ietf-sieve-regex §4 groups",
        "variables,regex,fileinto",
        "if header :regex \"subject\" \"^\\\\[([a-z-]+)\\\\].*version ([0-9]+)[.]([0-9]+)\" { fileinto \"${1} ${2} ${3}\"; }",
        LIST,
        &["store acme-users 1 0"],
    ),
    Example::new(
        "draft-ietf-sieve-regex §4 the longest, and of each part the longest",
        "variables,regex,fileinto",
        "if header :regex \"subject\" \"(v|ve|version)(e|er|rsion)?( 1)?\" { fileinto \"${0}|${1}|${2}|${3}\"; }",
        LIST,
        &["store version 1|version|| 1"],
    )
    .where_pigeonhole_says(&["store version 1|ve|rsion| 1"], GLIBC),
    Example::new(
        "draft-ietf-sieve-regex §4 alternatives of one length",
        "variables,regex,fileinto",
        "if header :regex \"subject\" \"(a|ac)(c|cme)(m|me)?(-.*)?\" { fileinto \"${1}|${2}|${3}\"; }",
        LIST,
        &["store a|cme|"],
    )
    .where_pigeonhole_says(&["store a|c|me"], GLIBC),
    Example::new(
        "draft-ietf-sieve-regex §3 alternatives",
        "regex,fileinto",
        "if address :regex :comparator \"i;ascii-casemap\" \"from\" \"^(dave|ana)@.*[.]NET$\" { fileinto \"Friends\"; }",
        LIST,
        &["store Friends"],
    ),
];
