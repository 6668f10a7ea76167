//! RTF as Outlook, Word and Exchange write it, and HTML there and back.

use posthaste_property::{one_of, properties};
use proptest::prelude::*;

use super::*;
use crate::rtf::{wrap_html, wrap_text};

fn html(rtf: &str) -> String {
    let document = read(rtf.as_bytes(), 1 << 20).expect("RTF");
    assert_eq!(document.origin, Origin::Html);
    document.html.expect("HTML")
}

fn text(rtf: &str) -> String {
    read(rtf.as_bytes(), 1 << 20).expect("RTF").text
}

fn body(rtf: &str) -> String {
    let html = read(rtf.as_bytes(), 1 << 20).expect("RTF").html.expect("HTML");
    let html = html.strip_prefix("<!DOCTYPE html>\r\n<html><body>\r\n").expect("a head").to_owned();
    html.strip_suffix("</body></html>\r\n").expect("an end").to_owned()
}

/// The example of MS-OXRTFEX §4.1, shortened.
#[test]
fn encapsulated_html_is_returned_unchanged() {
    let rtf = r##"{\rtf1\ansi\ansicpg1251\fromhtml1 \deff0
{\fonttbl {\f0\fmodern Courier New;}{\f1\fswiss Arial;}{\f2\fswiss\fcharset0 Arial;}}
{\colortbl\red0\green0\blue0;\red0\green0\blue255;}
{\*\htmltag64}
\uc1\pard\plain\deftab360 \f0\fs24
{\*\htmltag <HTML><head>\par
<style>\par
<!--\par
 /* Style Definitions */\par
 p.MsoNormal, li.MsoNormal \{font-family:Arial;\}\par
-->\par
</style>\par
\tab <!-- This is a HTML comment.\par
There is a horizontal tab (%x09) character before the comment, \par
and some new line inside the comment. -->\par
</head>\par
<body>\par
<p\par
class="MsoNormal">}
{\htmlrtf \f1 \htmlrtf0 Note the line break inside a P tag. {\*\htmltag <b>}{\htmlrtf \b \htmlrtf0 This is a bold text{\*\htmltag </b>}} \htmlrtf\par\htmlrtf0}
\htmlrtf \par \htmlrtf0
{\*\htmltag </p>\par
<p class="MsoNormal">\par}
{\htmlrtf \f1 \htmlrtf0 This is a normal text with a character references:
{\*\htmltag &nbsp;}\htmlrtf \'a0\htmlrtf0  {\*\htmltag &lt;}\htmlrtf <\htmlrtf0  {\*\htmltag &uml;}\htmlrtf {\f2\'a8}\htmlrtf0{\*\htmltag <br>\par}\htmlrtf\line\htmlrtf0
characters which have special meaning in RTF: \{\}\\{\*\htmltag <br>\par}\htmlrtf\line\htmlrtf0\htmlrtf\par\htmlrtf0}
{\*\htmltag </p>\par
</body>\par
</HTML>\par}}"##;
    let expected = "<HTML><head>\r\n<style>\r\n<!--\r\n /* Style Definitions */\r\n p.MsoNormal, li.MsoNormal \
{font-family:Arial;}\r\n-->\r\n</style>\r\n\t<!-- This is a HTML comment.\r\nThere is a horizontal tab (%x09) \
character before the comment, \r\nand some new line inside the comment. -->\r\n</head>\r\n<body>\r\n<p\r\n\
class=\"MsoNormal\">Note the line break inside a P tag. <b>This is a bold text</b> </p>\r\n<p class=\"MsoNormal\">\r\n\
This is a normal text with a character references:&nbsp; &lt; &uml;<br>\r\ncharacters which have special meaning \
in RTF: {}\\<br>\r\n</p>\r\n</body>\r\n</HTML>\r\n";
    assert_eq!(html(rtf), expected);
    let text = text(rtf);
    assert!(text.contains("a bold text") && text.contains("references:\u{a0} <"), "{text}");
    assert!(!text.contains("MsoNormal"), "{text}");
}

#[test]
fn characters_by_code_page_font_and_number() {
    let head = r"{\rtf1\ansi\ansicpg1251\fromhtml1\deff0{\fonttbl{\f0\fcharset204 A;}{\f1\fcharset128 B;}{\f2\fcharset2 Symbol;}{\f3\fcharset1 C;}}\plain ";
    for (rtf, expected) in [
        (r"\'cf\'f0", "Пр"),
        (r"\f1\'93\'fa\'96\'7b", "日本"),
        (r"\f1\'93\'fa{\f0\'cf}\'96{}", "日П\u{fffd}"),
        // A second byte that is a letter stays as it is.
        (r"\f1\'83A", "ア"),
        (r"\f2\'b7\f3\'cf", "•П"),
        (r"\htmlrtf\f1\htmlrtf0\'93\'fa", "日"),
        (r"{\*\htmltag64 \'cf}", "П"),
        (r"\f1{\*\htmltag64 \'cf}", "П"),
        (r"\u1055?\u-10179?\u-8704?.", "П😀."),
        (r"\uc2\u1055\'93\'fax{\uc0\u1056}y", "ПxРy"),
        (r"\uc1\u1055{x}", "Пx"),
        (r"\u-10179?x", "x"),
        (r"\u-8704?x", "\u{fffd}x"),
        (r"\lquote a\rquote\~\_\endash\bullet b", "&lsquo;a&rsquo;&nbsp;&shy;&ndash;&bull;b"),
        (r"{\*\mhtmltag64 no}{\*\unknown no}a", "a"),
        (r"a\htmlrtf b\htmlrtf0 c{\htmlrtf d}e", "ace"),
        (r"\htmlrtf {\b \htmlrtf0 a\htmlrtf }\htmlrtf0 b", "ab"),
    ] {
        assert_eq!(html(&format!("{head}{rtf}}}")), expected, "{rtf}");
    }
}

#[test]
fn rtf_of_its_own_becomes_simple_html() {
    let head = r"{\rtf1\ansi\ansicpg1252\deff0{\fonttbl{\f0 Times;}}{\colortbl;\red1\green2\blue3;}{\stylesheet{\s0 Normal;}}{\info{\title T}}{\*\generator X;}";
    for (rtf, expected_text, expected) in [
        (r"\pard a\b b\i c\b0 d\plain e\par", "abcde\r\n", "<p>a<b>b</b><b><i>c</i></b><i>d</i>e</p>\r\n"),
        (r"a<&>\par\par b", "a<&>\r\n\r\nb", "<p>a&lt;&amp;&gt;</p>\r\n<p>&nbsp;</p>\r\n<p>b</p>\r\n"),
        (r"a\line b\tab c", "a\r\nb\tc", "<p>a<br>\r\nb&nbsp;&nbsp;&nbsp; c</p>\r\n"),
        (
            r#"{\field{\*\fldinst{HYPERLINK "http://x.example/?a=1&b"}}{\fldrslt{\ul here}}}."#,
            "here <http://x.example/?a=1&b>.",
            "<p><a href=\"http://x.example/?a=1&amp;b\"><u>here</u></a>.</p>\r\n",
        ),
        (
            r#"{\field{\*\fldinst HYPERLINK mailto:a@x.example }{\fldrslt a@x.example}}"#,
            "a@x.example",
            "<p><a href=\"mailto:a@x.example\">a@x.example</a></p>\r\n",
        ),
        (r#"{\field{\*\fldinst HYPERLINK "javascript:x()"}{\fldrslt y}}"#, "y", "<p>y</p>\r\n"),
        (r"{\pntext\'b7\tab}one\par", "·\tone\r\n", "<p>·&nbsp;&nbsp;&nbsp; one</p>\r\n"),
        (r"a{\v hidden}b{\pict\wmetafile8 0123}\bin3 }}}c", "abc", "<p>abc</p>\r\n"),
        (r"{\strike a}\'fc\emdash", "aü—", "<p><s>a</s>ü—</p>\r\n"),
    ] {
        let rtf = format!("{head}{rtf}}}");
        assert_eq!((text(&rtf).as_str(), body(&rtf).as_str()), (expected_text, expected), "{rtf}");
    }
}

/// RTF 1.9.1, Track Changes: the reader sees the text as it is after the changes.
#[test]
fn deleted_text_of_tracked_changes_is_left_out() {
    for (rtf, expected_text, expected) in [
        (r"a{\deleted\revauthdel1\revdttmdel7 old}b\par", "ab\r\n", "<p>ab</p>\r\n"),
        (r"{\revised\revauth1\revdttm7 new}{\deleted old} end", "new end", "<p>new end</p>\r\n"),
        (r"a\deleted\b old\b0\'fc\u8211?\tab\deleted0 c", "ac", "<p>ac</p>\r\n"),
        (r"a{\deleted x\plain b}c", "abc", "<p>abc</p>\r\n"),
        (r"a{\mvf\mvauth1 moved}b{\mvt\mvauth1 moved}", "abmoved", "<p>abmoved</p>\r\n"),
        // The mark of a paragraph is deleted, so that two become one.
        (r"a{\deleted\par}b\par c", "ab\r\nc", "<p>ab</p>\r\n<p>c</p>\r\n"),
        (r"a{\deleted{\pict\pngblip 89504e470d0a1a0a}}b", "ab", "<p>ab</p>\r\n"),
    ] {
        let rtf = format!("{HEAD}{rtf}}}");
        assert_eq!((text(&rtf).as_str(), body(&rtf).as_str()), (expected_text, expected), "{rtf}");
    }
    // HTML that is encapsulated says itself what is deleted.
    let encapsulated = r"{\rtf1\ansi\fromhtml1{\*\htmltag <del>}{\deleted old}{\*\htmltag </del>}new}";
    assert_eq!(html(encapsulated), "<del>old</del>new");
    assert_eq!(text(encapsulated), "new");
}

/// Head of RTF that was written as such, without its last brace.
const HEAD: &str = r"{\rtf1\ansi\ansicpg1252\deff0{\fonttbl{\f0 Times;}}";

/// A text box has its text in the shape. What is beside it repeats that, or describes the shape.
#[test]
fn the_text_of_a_text_box_is_text() {
    let shape = r"{\*\shpinst\shpleft0\shpz0{\sp{\sn shapeType}{\sv 202}}{\sp{\sn pib}{\sv {\pict 0f}}}{\shptxt \pard\plain One\par Two\b !\par}}";
    let result = r"{\shprslt{\*\do\dobxpage{\dptxbx{\dptxbxtext\pard One\par Two!}}\dpx0}}";
    let html = "<p>a</p>\r\n<p>One</p>\r\n<p>Two<b>!</b></p>\r\n<p>b</p>\r\n";
    for rtf in [
        format!(r"a{{\shp{shape}{result}}}b"),
        format!(r"a{{\shp{shape}}}b"),
        format!(r"a\par{{\shp{shape}{{\shprslt\pard One\par Two!\par}}}}b"),
        // Shapes in a group.
        format!(r"a{{\shpgrp{{\*\shpinst{{\sp{{\sn x}}{{\sv 1}}}}{{\shp{shape}}}}}{result}}}b"),
    ] {
        let rtf = format!("{HEAD}{rtf}}}");
        assert_eq!(text(&rtf), "a\r\nOne\r\nTwo!\r\nb", "{rtf}");
        assert_eq!(body(&rtf), html, "{rtf}");
    }
    // A shape of older programs, and one whose text is in the result alone.
    for rtf in [
        r"a{\*\do\dobxpage{\dptxbx{\dptxbxtext\pard One\par}}\dpx0}b".to_owned(),
        r"a{\shp{\*\shpinst{\sp{\sn x}{\sv 1}}{\shptxt  }}{\shprslt{\*\do{\dptxbxtext\pard One}}}}b"
            .to_owned(),
    ] {
        let text = text(&format!("{HEAD}{rtf}}}"));
        assert_eq!(text.split_whitespace().collect::<Vec<_>>(), ["a", "One", "b"], "{rtf}: {text:?}");
    }
    // Not where nothing is shown, and not in what is encapsulated.
    let hidden = format!(r"{HEAD}a{{\header{{\shp{shape}{result}}}}}b{{\*\background{{\shp{shape}}}}}}}");
    assert_eq!(text(&hidden), "ab");
    let from_html = format!(r"{{\rtf1\ansi\fromhtml1{{\*\htmltag <p>}}a{{\shp{shape}{result}}}b}}");
    assert_eq!(self::html(&from_html), "<p>ab");
}

/// RTF 1.9.1, `\upr`: the same text twice, for readers with Unicode and for others.
#[test]
fn the_unicode_form_of_a_text_is_preferred() {
    let head = HEAD;
    for (rtf, expected_text, expected) in [
        (r"a{\upr{??\b ?}{\*\ud{\u1055?\i\u1056?}}}b", "aПРb", "<p>aП<i>Р</i>b</p>\r\n"),
        // The braces of a form may be missing, and a form may be.
        (r"a{\upr ??\par{\*\ud \u1055?}}b", "aПb", "<p>aПb</p>\r\n"),
        (r"a{\upr{only}}b{\*\ud no}", "aonlyb", "<p>aonlyb</p>\r\n"),
        (r"a{\upr{x{\upr{y}{\*\ud{z}}}}{\*\ud{{\upr{v}{\*\ud{w}}}}}}b", "awb", "<p>awb</p>\r\n"),
        (r"a{\upr{\par x}{\*\ud{}}}b", "ab", "<p>ab</p>\r\n"),
        (
            r#"{\field{\*\fldinst{\upr{HYPERLINK "http://?"}{\*\ud{HYPERLINK "http://\u252?"}}}}{\fldrslt x}}"#,
            "x <http://ü>",
            "<p><a href=\"http://ü\">x</a></p>\r\n",
        ),
        (r"{\header{\upr{x}{\*\ud{y}}}}a", "a", "<p>a</p>\r\n"),
    ] {
        let rtf = format!("{head}{rtf}}}");
        assert_eq!(text(&rtf), expected_text, "{rtf}");
        assert_eq!(body(&rtf), expected, "{rtf}");
    }
    assert_eq!(html(r"{\rtf1\ansi\fromhtml1 a{\upr{?}{\*\ud{\u1055?}}}b}"), "aПb");
    // A link within the first form, which is taken back, and a field that ended meanwhile.
    for rtf in [
        r#"{\upr{\*\fldinst HYPERLINK "http://a"}x{\*\ud{\'fc\'fc y}}}z"#,
        r#"{\*\fldinst a{\upr bbbbbbb{\pict{\fldinst x}}\'fc\'fc\'fc\'fc\'fc\'fc{\*\ud y}}}z"#,
    ] {
        assert!(text(&format!("{head}{rtf}}}")).ends_with('z'), "{rtf}");
    }
}

#[test]
fn rtf_that_ends_within_a_group_is_damaged() {
    let whole = format!(r"{HEAD}one {{\b two}} three}}");
    assert_eq!(text(&whole), "one two three");
    for (len, groups) in [(whole.len() - 1, 1), (whole.find("two").expect("it"), 2)] {
        let cut = &whole.as_bytes()[..len];
        assert_eq!(read(cut, 1 << 20), Err(Damage::Unclosed { groups }));
    }
    let html = br"{\rtf1\ansi\fromhtml1 {\*\htmltag <p>}text";
    assert_eq!(read(html, 1 << 20), Err(Damage::Unclosed { groups: 1 }));
}

#[test]
fn text_comes_out_as_it_went_in() {
    let rtf = r"{\rtf1\ansi\fromtext\deff0{\fonttbl{\f0\fmodern Courier;}}\pard a <b> & c\par\tab d\'e4}";
    let document = read(rtf.as_bytes(), 1000).expect("RTF");
    assert_eq!((document.origin, document.html), (Origin::Text, None));
    assert_eq!(document.text, "a <b> & c\r\n\tdä");
}

#[test]
fn groups_and_output_are_bounded() {
    let deep = [b"{\\rtf1".as_slice(), &b"{".repeat(GROUPS_MAX)].concat();
    assert_eq!(read(&deep, 1000), Err(Damage::Groups { limit: GROUPS_MAX }));
    let deep = [&b"{".repeat(GROUPS_MAX)[..], &b"}".repeat(3 * GROUPS_MAX)].concat();
    assert!(read(&deep, 1000).is_ok());
    let rtf = [b"{\\rtf1 ".as_slice(), &b"\\par".repeat(1000), b"}"].concat();
    assert_eq!(read(&rtf, 5000), Err(Damage::Expands { limit: 5000 }));
    assert_eq!(read(b"", 0).map(|d| d.origin), Ok(Origin::Rtf));
}

#[test]
fn wrapped_html_reads_well_as_text() {
    let page = "<html><head><title>T</title><style>p{x}</style></head>\r\n<body><p>a &amp; b<br>c\r\nd</p></body></html>";
    let document = read(&wrap_html(page), 1 << 20).expect("our own");
    assert_eq!(document.html.as_deref(), Some(page));
    assert_eq!(document.text.trim(), "a & b\r\nc d");
}

properties! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn html_and_text_come_back(
        pieces in prop::collection::vec(one_of![
            Just("<p class=\"x\">".to_owned()), Just("</p>\r\n".to_owned()), Just("<br>".to_owned()),
            Just("&nbsp;".to_owned()), Just("<style>a{b}\r\n</style>".to_owned()), Just("<!-- x > y -->".to_owned()),
            Just("\r\n".to_owned()), "[ -~\t\r\n]{0,9}", "[^\0]{0,5}",
        ], 0..20),
    ) {
        let page = pieces.concat();
        let document = read(&wrap_html(&page), 1 << 20).expect("our own");
        prop_assert_eq!(document.origin, Origin::Html);
        prop_assert_eq!(document.html, Some(page.clone()));
        let document = read(&wrap_text(&page), 1 << 20).expect("our own");
        prop_assert_eq!(document.origin, Origin::Text);
        prop_assert_eq!(document.text, page);
    }

    #[test]
    fn any_rtf_is_read_or_refused(rtf in "[{}\\\\' a-f0-9*~\r\n-]{0,300}") {
        let _ = read(rtf.as_bytes(), 10_000);
        let _ = read(format!("{{\\rtf1\\fromhtml1 {rtf}").as_bytes(), 10_000);
    }
}

/// RTF 1.9.1, `\deff`: the default font has its character set before any font is chosen.
#[test]
fn the_default_font_has_a_code_page() {
    for (font, text) in [("\\fcharset204", "\u{41f}\u{440}"), ("\\fcharset0", "\u{cf}\u{f0}")] {
        let rtf = format!("{{\\rtf1\\ansi\\ansicpg1252\\deff0{{\\fonttbl{{\\f0{font} Arial;}}}}\\'cf\\'f0}}");
        assert_eq!(read(rtf.as_bytes(), 1000).expect("RTF").text.trim_end(), text);
    }
}

/// RTF 1.9.1, Nested Tables. Readers that know none of them read `\nonesttables`.
#[test]
fn cells_of_a_nested_table_are_apart() {
    let rtf =
        r"{\rtf1\ansi one\nestcell two\nestcell{\*\nesttableprops\trowd\nestrow}{\nonesttables\par}three}";
    assert_eq!(text(rtf).trim_end(), "one\ttwo\t\r\nthree");
}
