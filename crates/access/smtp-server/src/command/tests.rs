//! Known answers and the round trip.

use posthaste_property::{one_of, properties};
use proptest::prelude::*;

use super::*;

fn parse(line: &str) -> Result<Command, SyntaxError> {
    Command::parse(line.as_bytes())
}

#[test]
fn known_lines() {
    for (line, printed) in [
        ("ehlo mail.example", "EHLO mail.example"),
        ("EHLO [127.0.0.1]", "EHLO [127.0.0.1]"),
        ("LHLO  bücher.example ", "LHLO bücher.example"),
        ("mail from:<>", "MAIL FROM:<>"),
        ("MAIL FROM: <ana@example.org>", "MAIL FROM:<ana@example.org>"),
        (
            "MAIL FROM:<ana@example.org>  size=10 body=8bitmime SMTPUTF8 AUTH=<>",
            "MAIL FROM:<ana@example.org> SIZE=10 BODY=8BITMIME SMTPUTF8 AUTH=<>",
        ),
        ("RCPT TO:<@relay.example:bo@example.org>", "RCPT TO:<bo@example.org>"),
        ("RCPT TO:<postmaster>", "RCPT TO:<postmaster>"),
        (
            "MAIL FROM:<a@example.org> ret=full envid=QQ+2B1 body=binarymime",
            "MAIL FROM:<a@example.org> BODY=BINARYMIME RET=FULL ENVID=QQ+2B1",
        ),
        ("MAIL FROM:<a@example.org> mt-priority=-9", "MAIL FROM:<a@example.org> MT-PRIORITY=-9"),
        (
            "RCPT TO:<bo@example.org> orcpt=rfc822;bo+2Bx@example.org notify=delay,success",
            "RCPT TO:<bo@example.org> NOTIFY=SUCCESS,DELAY ORCPT=rfc822;bo+2Bx@example.org",
        ),
        ("DATA", "DATA"),
        ("bdat 12", "BDAT 12"),
        ("BDAT 0 last", "BDAT 0 LAST"),
        ("burl imap://a@b/c/;UID=1 last", "BURL imap://a@b/c/;UID=1 LAST"),
        ("BDAT 99999999999999999999", "BDAT 18446744073709551615"),
        ("NOOP whatever", "NOOP"),
        ("HELP MAIL", "HELP"),
        ("rset", "RSET"),
        ("VRFY ana", "VRFY ana"),
        ("STARTTLS", "STARTTLS"),
        ("auth plain", "AUTH PLAIN"),
        ("AUTH PLAIN =", "AUTH PLAIN ="),
        ("AUTH PLAIN AGFuYQBzZWNyZXQ=", "AUTH PLAIN AGFuYQBzZWNyZXQ="),
        ("QUIT", "QUIT"),
    ] {
        assert_eq!(parse(line).map(|command| command.to_string()), Ok(printed.to_owned()), "{line}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    use SyntaxError::*;
    for (line, error) in [
        ("", Verb),
        ("FROB", Verb),
        (" DATA", Verb),
        ("SEND FROM:<ana@example.org>", Verb),
        ("EHLO", Argument("give your host name or [address]")),
        ("EHLO a b", Argument("give your host name or [address]")),
        ("EHLO x)\u{1}", Argument("give your host name or [address]")),
        ("DATA now", Argument("this command takes no argument")),
        ("MAIL", Argument("MAIL FROM:<address>")),
        ("MAIL TO:<ana@example.org>", Argument("MAIL FROM:<address>")),
        ("MAIL FROM:ana@example.org", Path("it must be in <angle brackets>")),
        ("MAIL FROM:<ana@example.org>SIZE=1", Path("a space must follow it")),
        ("MAIL FROM:<ana@example.org> HOLDFOR=9", Parameter),
        ("MAIL FROM:<ana@example.org> RET=ALL", ParameterValue("RET=FULL or RET=HDRS")),
        ("MAIL FROM:<ana@example.org> ENVID=a+0Ab", ParameterValue("ENVID=printable ASCII as xtext")),
        ("MAIL FROM:<ana@example.org> SIZE=x", ParameterValue("SIZE=octets")),
        ("MAIL FROM:<ana@example.org> SIZE=1 SIZE=1", ParameterValue("SIZE=octets")),
        ("MAIL FROM:<ana@example.org> BODY=ANY", ParameterValue("BODY=7BIT, 8BITMIME or BINARYMIME")),
        ("MAIL FROM:<ana@example.org> SMTPUTF8=1", ParameterValue("a value is missing or superfluous")),
        ("MAIL FROM:<ana@example.org> AUTH=a+b", ParameterValue("AUTH=address as xtext")),
        ("MAIL FROM:<ana@example.org> MT-PRIORITY=10", ParameterValue("MT-PRIORITY=-9 to 9")),
        ("MAIL FROM:<ana@example.org> MT-PRIORITY=+1", ParameterValue("MT-PRIORITY=-9 to 9")),
        ("RCPT TO:<>", Path("it has no local part")),
        ("RCPT TO:<ana@example.org> SIZE=1", Parameter),
        ("RCPT TO:<ana@example.org> NOTIFY", ParameterValue("a value is missing or superfluous")),
        (
            "RCPT TO:<ana@example.org> NOTIFY=NEVER,DELAY",
            ParameterValue("NOTIFY=NEVER, or of SUCCESS,FAILURE,DELAY"),
        ),
        ("RCPT TO:<ana@example.org> ORCPT=ana", ParameterValue("ORCPT=type;address as xtext")),
        ("BDAT", Argument("BDAT octets [LAST]")),
        ("BDAT -1", Argument("BDAT octets [LAST]")),
        ("BURL", Argument("BURL imap-url [LAST]")),
        ("BURL imap://a@b/c/;UID=1 FIRST", Argument("BURL imap-url [LAST]")),
        ("BDAT 1 FIRST", Argument("BDAT octets [LAST]")),
        ("BDAT 123456789012345678901", Argument("BDAT octets [LAST]")),
        ("AUTH", Argument("AUTH mechanism [initial-response]")),
        ("AUTH A!", Argument("AUTH mechanism [initial-response]")),
        ("AUTH PLAIN ???", Argument("this is not base64")),
        ("NOOP a\nb", Line),
        ("NOOP a\rb", Line),
        ("NOOP a\0b", Line),
    ] {
        assert_eq!(parse(line), Err(error), "{line:?}");
    }
    assert_eq!(Command::parse(b"EHLO \xff"), Err(Line));
}

fn domain() -> impl Strategy<Value = String> {
    one_of!["[a-z0-9-]{1,10}(\\.[a-zü]{1,8}){0,2}", "\\[[0-9a-fA-F:.]{1,20}\\]"]
}

fn mailbox() -> impl Strategy<Value = Mailbox> {
    let local = one_of!["[a-z0-9+=/_é-]{1,12}(\\.[a-z]{1,4})?", "\"[ a-z<>@]{0,5}(\\\\\")?\""];
    let text =
        one_of![local.clone(), (local, domain()).prop_map(|(local, domain)| format!("{local}@{domain}"))];
    text.prop_map(|text| Mailbox::parse(&text).unwrap())
}

fn parameters() -> impl Strategy<Value = MailParameters> {
    let body = one_of![Just(BodyKind::SevenBit), Just(BodyKind::EightBitMime), Just(BodyKind::BinaryMime)];
    let ret = one_of![Just(Return::Full), Just(Return::Headers)];
    let envid = "[a-zA-Z0-9.@-]{1,20}(\\+2B)?".prop_map(|text| EnvelopeId::parse(&text).unwrap());
    let auth = one_of![Just("<>".to_owned()), "[a-z@.]{1,10}(\\+3D)?"];
    let priority = proptest::option::of((-9i8..=9).prop_map(|n| Priority::try_from(n).unwrap()));
    let (body, auth) = (proptest::option::of(body), proptest::option::of(auth));
    let reports = (proptest::option::of(ret), proptest::option::of(envid));
    (any::<Option<u64>>(), body, any::<(bool, bool)>(), auth, reports, priority).prop_map(
        |(size, body, (smtputf8, require_tls), auth, (ret, envid), priority)| MailParameters {
            size,
            body,
            smtputf8,
            auth,
            ret,
            envid,
            require_tls,
            priority,
        },
    )
}

fn recipient_parameters() -> impl Strategy<Value = RcptParameters> {
    let notify =
        any::<(bool, bool, bool)>().prop_map(|(success, failure, delay)| Notify { success, failure, delay });
    let orcpt = one_of!["rfc822;[a-z@.]{1,20}(\\+3D)?", "utf-8;[a-zé@.]{1,20}"]
        .prop_map(|text| OriginalRecipient::parse(&text).unwrap());
    (proptest::option::of(notify), proptest::option::of(orcpt))
        .prop_map(|(notify, orcpt)| RcptParameters { notify, orcpt })
}

fn command() -> impl Strategy<Value = Command> {
    let from = one_of![Just(ReversePath::Null), mailbox().prop_map(ReversePath::Mailbox)];
    one_of![
        domain().prop_map(Command::Ehlo),
        domain().prop_map(Command::Helo),
        domain().prop_map(Command::Lhlo),
        (from, parameters()).prop_map(|(from, parameters)| Command::Mail { from, parameters }),
        (mailbox(), recipient_parameters()).prop_map(|(to, parameters)| Command::Rcpt { to, parameters }),
        (any::<u64>(), any::<bool>()).prop_map(|(size, last)| Command::Bdat { size, last }),
        "[a-z@.]{1,12}".prop_map(Command::Vrfy),
        "[a-z@.]{1,12}".prop_map(Command::Expn),
        ("[A-Z][A-Z0-9_-]{0,19}", any::<Option<Vec<u8>>>())
            .prop_map(|(mechanism, initial)| Command::Auth { mechanism, initial }),
        proptest::sample::select(vec![
            Command::Data,
            Command::Rset,
            Command::Noop,
            Command::Quit,
            Command::Help,
            Command::StartTls
        ]),
    ]
}

properties! {
    #[test]
    fn printed_commands_are_read_back(command in command()) {
        let line = command.to_string();
        prop_assert_eq!(parse(&line), Ok(command), "{}", line);
    }

    #[test]
    fn anything_may_be_sent(line in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Command::parse(&line);
    }

    #[test]
    fn nearly_commands_may_be_sent(
        verb in prop::sample::select(VERBS.map(|(name, _)| name).to_vec()),
        rest in "[ :<>@\"\\\\=a-zA-ZFROMTO0-9\\[\\]ü]{0,40}",
    ) {
        // A parsed command parses to the same command after it is printed.
        if let Ok(command) = parse(&format!("{verb} {rest}")) {
            prop_assert_eq!(parse(&command.to_string()), Ok(command));
        }
    }
}
