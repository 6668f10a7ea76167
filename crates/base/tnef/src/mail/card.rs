//! Contacts as vCard: MS-OXVCARD, RFC 6350.

use posthaste_mime_summary::InBounds;

use super::calendar::{Lines, TextFile, categories, escape};
use super::dates;
use super::people::{Person, mail_address, members};
use crate::model::Message;
use crate::tags::{Guid, named, property};

/// The cards of a contact or of a list of people; `None` if the message is neither. `text` is that
/// of the message.
pub(super) fn of_message(message: &Message, text: Option<&str>) -> Option<TextFile> {
    let class = message.class();
    let is = |name: &str| class.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name));
    if is("IPM.Contact") {
        return Some(("text/vcard", "contact.vcf", card(message, text)));
    }
    if !is("IPM.DistList") {
        return None;
    }
    let cards: String = members(message).into_iter().map(short_card).collect();
    (!cards.is_empty()).then_some(("text/vcard", "members.vcf", cards))
}

/// The card of a member of a list. A card of the group could not be read by all: it needs vCard 4.0
/// (RFC 6350 §6.1.4), and names members by ids of other cards.
fn short_card(Person { name, address }: Person) -> String {
    let mut out = Lines(String::new());
    out.line("BEGIN:VCARD");
    out.line("VERSION:3.0");
    let full = name.as_deref().or(address.as_deref()).unwrap_or_default();
    out.line(&format!("FN:{}", escape(full)));
    out.line("N:;;;;");
    out.text("EMAIL;TYPE=INTERNET", address.as_deref());
    out.line("END:VCARD");
    out.0
}

/// Bytes of notes that a card has at most, so that a long text is not in the mail twice. Programs
/// for contacts limit notes to some 30,000 characters.
const NOTES_MAX: usize = 64 * 1024;

/// A contact as vCard 3.0, which every program reads (RFC 2426). `notes` are the message's text.
fn card(message: &Message, notes: Option<&str>) -> String {
    let text = |id| message.text(id).unwrap_or_default();
    let mut out = Lines(String::new());
    out.line("BEGIN:VCARD");
    out.line("VERSION:3.0");
    let full = [property::DISPLAY_NAME, property::SUBJECT].into_iter().find_map(|id| message.text(id));
    out.line(&format!("FN:{}", escape(full.unwrap_or_default().trim())));
    let name = [
        property::SURNAME,
        property::GIVEN_NAME,
        property::MIDDLE_NAME,
        property::DISPLAY_NAME_PREFIX,
        property::GENERATION,
    ];
    // RFC 2426 §3.1.2: every card has it, also one that has no parts of a name.
    out.line(&format!("N:{}", name.map(|id| escape(&text(id))).join(";")));
    out.text("NICKNAME", message.text(property::NICKNAME).as_deref());
    for address in addresses(message) {
        out.text("EMAIL;TYPE=INTERNET", Some(&address));
    }
    for (kind, id) in TELEPHONES {
        numbers(message, id).iter().for_each(|number| out.text(kind, Some(number)));
    }
    postal_addresses(&mut out, message);
    fields(&mut out, "ORG", &[text(property::COMPANY_NAME), text(property::DEPARTMENT_NAME)]);
    for (name, id) in [
        ("TITLE", property::TITLE),
        ("ROLE", property::PROFESSION),
        ("URL", property::BUSINESS_HOME_PAGE),
        ("URL", property::PERSONAL_HOME_PAGE),
    ] {
        out.text(name, message.text(id).as_deref());
    }
    categories(&mut out, message);
    let day = |id| message.property(id).and_then(dates::of_value).map(dates::nearest_day).map(dates::day);
    out.text("BDAY", day(property::BIRTHDAY).as_deref());
    // MS-OXVCARD has these names for what RFC 2426 has none for.
    out.text("X-MS-IMADDRESS", message.named_text(named::INSTANT_MESSAGING_ADDRESS).as_deref());
    for (name, id) in [
        ("X-MS-MANAGER;TYPE=N", property::MANAGER_NAME),
        ("X-MS-ASSISTANT;TYPE=N", property::ASSISTANT),
        ("X-MS-TEL;TYPE=ASSISTANT", property::ASSISTANT_TELEPHONE_NUMBER),
        ("X-MS-SPOUSE;TYPE=N", property::SPOUSE_NAME),
    ] {
        out.text(name, message.text(id).as_deref());
    }
    out.text("X-MS-ANNIVERSARY", day(property::WEDDING_ANNIVERSARY).as_deref());
    // RFC 2426 §3.6.2.
    out.text("NOTE", notes.map(|notes| notes.in_bounds(..notes.floor_char_boundary(NOTES_MAX))));
    out.line("END:VCARD");
    out.0
}

/// The numbers of a contact (MS-OXOCNTC §2.2.1.4), with the types that RFC 2426 §3.3.1 has for
/// them. RFC 6350 §6.4.1 adds the text telephone; no RFC has telex. The number of an assistant is
/// another person's.
const TELEPHONES: [(&str, u16); 18] = [
    ("TEL;TYPE=WORK,VOICE", property::BUSINESS_TELEPHONE_NUMBER),
    ("TEL;TYPE=HOME,VOICE", property::HOME_TELEPHONE_NUMBER),
    ("TEL;TYPE=CELL,VOICE", property::MOBILE_TELEPHONE_NUMBER),
    ("TEL;TYPE=WORK,FAX", property::BUSINESS_FAX_NUMBER),
    ("TEL;TYPE=PREF,VOICE", property::PRIMARY_TELEPHONE_NUMBER),
    ("TEL;TYPE=WORK,VOICE", property::BUSINESS2_TELEPHONE_NUMBER),
    ("TEL;TYPE=WORK,VOICE", property::COMPANY_MAIN_TELEPHONE_NUMBER),
    ("TEL;TYPE=HOME,VOICE", property::HOME2_TELEPHONE_NUMBER),
    ("TEL;TYPE=CAR,VOICE", property::CAR_TELEPHONE_NUMBER),
    ("TEL;TYPE=VOICE", property::OTHER_TELEPHONE_NUMBER),
    ("TEL;TYPE=VOICE", property::CALLBACK_TELEPHONE_NUMBER),
    ("TEL;TYPE=VOICE", property::RADIO_TELEPHONE_NUMBER),
    ("TEL;TYPE=PAGER", property::PAGER_TELEPHONE_NUMBER),
    ("TEL;TYPE=HOME,FAX", property::HOME_FAX_NUMBER),
    ("TEL;TYPE=PREF,FAX", property::PRIMARY_FAX_NUMBER),
    ("TEL;TYPE=ISDN", property::ISDN_NUMBER),
    ("TEL;TYPE=X-TELEX", property::TELEX_NUMBER),
    ("TEL;TYPE=TEXTPHONE", property::TEXT_TELEPHONE_NUMBER),
];

/// Numbers of one kind that a card has at most. Exchange lists a few, and a hostile message may
/// list 100,000.
const NUMBERS_MAX: usize = 32;

/// The numbers of one kind, each once. A property may be a list of them, beside the one that has a
/// single number (MS-OXPROPS: PidTagBusiness2TelephoneNumbers, PidTagHome2TelephoneNumbers).
fn numbers(message: &Message, id: u16) -> Vec<String> {
    let code_page = message.text_code_page();
    let found = message.properties.iter().filter(|property| property.id == id && property.name.is_none());
    let mut numbers: Vec<String> = Vec::new();
    for number in found.flat_map(|property| property.value.each()).filter_map(|value| value.text(code_page)) {
        if numbers.len() == NUMBERS_MAX {
            break;
        }
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    numbers
}

/// Of each address of a contact: its type, the address itself, and its form for people.
const ADDRESSES: [[(Guid, u32); 3]; 3] = [
    [named::EMAIL1_ADDRESS_TYPE, named::EMAIL1_EMAIL_ADDRESS, named::EMAIL1_ORIGINAL_DISPLAY_NAME],
    [named::EMAIL2_ADDRESS_TYPE, named::EMAIL2_EMAIL_ADDRESS, named::EMAIL2_ORIGINAL_DISPLAY_NAME],
    [named::EMAIL3_ADDRESS_TYPE, named::EMAIL3_EMAIL_ADDRESS, named::EMAIL3_ORIGINAL_DISPLAY_NAME],
];

/// The addresses of a contact that mean something on the Internet. One of type EX is a name within
/// its system: then the form for people may be the address in SMTP (MS-OXOCNTC §2.2.1.2.4), or the
/// contact has one of its own.
fn addresses(message: &Message) -> Vec<String> {
    let mut smtp = message.text(property::SMTP_ADDRESS);
    let mut one = |[kind, address, shown]: [(Guid, u32); 3]| {
        let address = message.named_text(address)?;
        let is_smtp = match message.named_text(kind) {
            Some(kind) => kind.eq_ignore_ascii_case("SMTP"),
            None => !address.starts_with('/'),
        };
        if is_smtp {
            return Some(address);
        }
        let shown = message.named_text(shown);
        shown.as_deref().and_then(mail_address).or_else(|| mail_address(&smtp.take()?))
    };
    ADDRESSES.into_iter().filter_map(&mut one).collect()
}

/// A property of several parts, if any has text.
fn fields(out: &mut Lines, name: &str, parts: &[String]) {
    if parts.iter().any(|part| !part.is_empty()) {
        let parts: Vec<_> = parts.iter().map(|part| escape(part)).collect();
        out.line(&format!("{name}:{}", parts.join(";")));
    }
}

/// The addresses of work and home, and the third one that a contact may have.
fn postal_addresses(out: &mut Lines, message: &Message) {
    let text = |id| message.text(id).unwrap_or_default();
    let named = |name| message.named_text(name).unwrap_or_default();
    let parts = [
        named::WORK_ADDRESS_STREET,
        named::WORK_ADDRESS_CITY,
        named::WORK_ADDRESS_STATE,
        named::WORK_ADDRESS_POSTAL_CODE,
        named::WORK_ADDRESS_COUNTRY,
    ];
    address(out, "ADR;TYPE=WORK", parts.map(named));
    let parts = [
        property::HOME_ADDRESS_STREET,
        property::HOME_ADDRESS_CITY,
        property::HOME_ADDRESS_STATE,
        property::HOME_ADDRESS_POSTAL_CODE,
        property::HOME_ADDRESS_COUNTRY,
    ];
    address(out, "ADR;TYPE=HOME", parts.map(text));
    // RFC 2426 §3.2.1: without a type, it would be that of the work.
    let parts = [
        property::OTHER_ADDRESS_STREET,
        property::OTHER_ADDRESS_CITY,
        property::OTHER_ADDRESS_STATE,
        property::OTHER_ADDRESS_POSTAL_CODE,
        property::OTHER_ADDRESS_COUNTRY,
    ];
    address(out, "ADR;TYPE=POSTAL,PARCEL", parts.map(text));
}

/// RFC 2426 §3.2.1: a post box and an extension come before the street.
fn address(out: &mut Lines, name: &str, [street, city, state, code, country]: [String; 5]) {
    if [&street, &city, &state, &code, &country].iter().any(|part| !part.is_empty()) {
        fields(out, name, &[String::new(), String::new(), street, city, state, code, country]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::people::tests::one_off_entry as one_off;
    use super::*;
    use crate::tags::SET_PUBLIC_STRINGS;
    use crate::{Kind, Name, NameKey, Property, Value, samples};

    /// RFC 2426 §3.2.1, §3.5.2, §3.6.8 and §3.7.1.
    #[test]
    fn a_card_has_the_third_address_the_role_both_pages_and_categories() {
        let keywords = Name { set: SET_PUBLIC_STRINGS, key: NameKey::Text("Keywords".to_owned()) };
        let words = ["Friends", "One, two"].map(|word| Value::String(word.to_owned())).to_vec();
        let mut contact = samples::contact();
        contact.properties.extend([
            samples::text(0x3A63, "Street 1"),
            samples::text(0x3A5F, "City"),
            samples::text(0x3A62, "State"),
            samples::text(0x3A61, "12345"),
            samples::text(0x3A60, "Land"),
            samples::text(0x3A46, "Baker"),
            samples::text(0x3A50, "http://own.example/"),
            samples::text(0x3A51, "http://work.example/"),
            Property { id: 0x8001, name: Some(Box::new(keywords)), value: Value::Many(Kind::String, words) },
        ]);
        let card = card(&contact, None);
        for line in [
            "ADR;TYPE=POSTAL,PARCEL:;;Street 1;City;State;12345;Land",
            "ROLE:Baker",
            "URL:http://work.example/",
            "URL:http://own.example/",
            "CATEGORIES:Friends,One\\, two",
        ] {
            assert!(card.contains(&format!("\r\n{line}\r\n")), "{line}: {card}");
        }
    }

    /// RFC 2426 §3.6.2.
    #[test]
    fn a_card_has_the_notes() {
        let card = |notes: &str| super::card(&samples::contact(), Some(notes));
        assert!(card("Likes tea;\r\nnot coffee\r\n").contains("\r\nNOTE:Likes tea\\;\\nnot coffee\r\n"));
        assert!(!card(" \r\n").contains("NOTE"));
        let unfolded = card(&"\u{fc}".repeat(NOTES_MAX)).replace("\r\n ", "");
        assert_eq!(unfolded.matches('\u{fc}').count(), NOTES_MAX / 2);
    }

    /// Ids by MS-OXPROPS.
    #[test]
    fn a_card_has_the_people_around_a_contact() {
        let mut contact = samples::contact();
        contact.properties.extend([
            Property::named(
                (named::WORK_ADDRESS_CITY.0, 0x8062),
                Value::String("ana@chat.example".to_owned()),
            ),
            samples::text(0x3A4E, "Boss"),
            samples::text(0x3A30, "Max; M"),
            samples::text(0x3A2E, "+9"),
            samples::text(0x3A48, "Ben"),
            Property::new(0x3A41, Value::Time(samples::TIME)),
        ]);
        let expected = "X-MS-IMADDRESS:ana@chat.example\r\nX-MS-MANAGER;TYPE=N:Boss\r\n\
X-MS-ASSISTANT;TYPE=N:Max\\; M\r\nX-MS-TEL;TYPE=ASSISTANT:+9\r\nX-MS-SPOUSE;TYPE=N:Ben\r\n\
X-MS-ANNIVERSARY:20231115\r\nEND:VCARD\r\n";
        let card = card(&contact, None);
        assert!(card.ends_with(expected), "{card}");
    }

    /// MS-OXOCNTC §2.2.2.2: PidLidDistributionListOneOffMembers.
    #[test]
    fn a_list_of_people_has_a_card_for_each() {
        let entries =
            [one_off("Ana", "ana@y.example"), vec![1, 2, 3], one_off("ben@y.example", "ben@y.example")];
        let entries = Value::Many(Kind::Binary, entries.into_iter().map(Value::Binary).collect());
        let list = |class: &str| Message {
            properties: vec![
                samples::text(property::MESSAGE_CLASS, class),
                Property::named((named::WORK_ADDRESS_CITY.0, 0x8054), entries.clone()),
            ],
            ..Message::default()
        };
        let card = |name: &str, address: &str| {
            format!(
                "BEGIN:VCARD\r\nVERSION:3.0\r\nFN:{name}\r\nN:;;;;\r\nEMAIL;TYPE=INTERNET:{address}\r\nEND:VCARD\r\n"
            )
        };
        let both = card("Ana", "ana@y.example") + &card("ben@y.example", "ben@y.example");
        assert_eq!(of_message(&list("IPM.DistList"), None), Some(("text/vcard", "members.vcf", both)));
        assert_eq!(of_message(&list("IPM.Note"), None), None);
        let properties = vec![samples::text(property::MESSAGE_CLASS, "IPM.DistList")];
        assert_eq!(of_message(&Message { properties, ..Message::default() }, None), None);
    }

    /// Each kind of number, by the id that MS-OXPROPS has for it.
    #[test]
    fn a_card_has_all_telephones() {
        let kinds = [
            (0x3A02, "VOICE"),
            (0x3A08, "WORK,VOICE"),
            (0x3A09, "HOME,VOICE"),
            (0x3A1A, "PREF,VOICE"),
            (0x3A1B, "WORK,VOICE"),
            (0x3A1C, "CELL,VOICE"),
            (0x3A1D, "VOICE"),
            (0x3A1E, "CAR,VOICE"),
            (0x3A1F, "VOICE"),
            (0x3A21, "PAGER"),
            (0x3A23, "PREF,FAX"),
            (0x3A24, "WORK,FAX"),
            (0x3A25, "HOME,FAX"),
            (0x3A2C, "X-TELEX"),
            (0x3A2D, "ISDN"),
            (0x3A2F, "HOME,VOICE"),
            (0x3A4B, "TEXTPHONE"),
            (0x3A57, "WORK,VOICE"),
        ];
        let mut contact = samples::contact();
        contact.properties.retain(|property| property.id != property::MOBILE_TELEPHONE_NUMBER);
        contact.properties.extend(kinds.map(|(id, _)| samples::text(id, &format!("+{id}"))));
        let card = card(&contact, None);
        for (id, kind) in kinds {
            assert!(card.contains(&format!("\r\nTEL;TYPE={kind}:+{id}\r\n")), "{id:#x}: {card}");
        }
        assert_eq!(card.matches("TEL;").count(), kinds.len());
    }

    /// A list of numbers, beside the property that has the first of them alone.
    #[test]
    fn a_card_has_all_numbers_of_a_list() {
        let list = |numbers: &[&str]| {
            let numbers = numbers.iter().map(|number| Value::String((*number).to_owned()));
            Value::Many(Kind::String, numbers.collect())
        };
        let mut contact = samples::contact();
        contact.properties.extend([
            samples::text(0x3A1B, "+1"),
            Property::new(0x3A1B, list(&["+1", " ", "+2"])),
            Property::new(0x3A2F, list(&["+3", "+4"])),
        ]);
        let tel = |kind: &str, number: &str| format!("TEL;TYPE={kind},VOICE:{number}\r\n");
        let card = card(&contact, None);
        let both =
            [tel("CELL", "+1 2"), tel("WORK", "+1"), tel("WORK", "+2"), tel("HOME", "+3"), tel("HOME", "+4")];
        assert!(card.contains(&both.concat()), "{card}");
        assert_eq!(card.matches("TEL;").count(), both.len(), "{card}");
        let many: Vec<_> = (0..1_000).map(|number| format!("+{number}")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        contact.properties = vec![Property::new(0x3A2F, list(&many))];
        assert_eq!(super::card(&contact, None).matches("TEL;").count(), NUMBERS_MAX);
    }
}
