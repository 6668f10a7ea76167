//! Numbers of attributes, properties and property sets, by the names that the specifications give
//! them.

/// 16 bytes of a GUID, in the order in which they are in a stream.
pub type Guid = [u8; 16];

/// Ids of TNEF attributes: MS-OXTNEF §2.1.3.
pub mod attribute {
    #![allow(missing_docs)]
    pub const DATE_START: u32 = 0x0003_0006;
    pub const DATE_END: u32 = 0x0003_0007;
    pub const REQUEST_RES: u32 = 0x0004_0009;
    pub const FROM: u32 = 0x0000_8000;
    pub const SUBJECT: u32 = 0x0001_8004;
    pub const DATE_SENT: u32 = 0x0003_8005;
    pub const DATE_RECD: u32 = 0x0003_8006;
    pub const MESSAGE_CLASS: u32 = 0x0007_8008;
    pub const MESSAGE_ID: u32 = 0x0001_8009;
    pub const BODY: u32 = 0x0002_800C;
    pub const PRIORITY: u32 = 0x0004_800D;
    pub const ATTACH_DATA: u32 = 0x0006_800F;
    pub const ATTACH_TITLE: u32 = 0x0001_8010;
    pub const ATTACH_META_FILE: u32 = 0x0006_8011;
    pub const ATTACH_CREATE_DATE: u32 = 0x0003_8012;
    pub const ATTACH_MODIFY_DATE: u32 = 0x0003_8013;
    pub const ATTACH_TRANSPORT_FILENAME: u32 = 0x0006_9001;
    pub const ATTACH_REND_DATA: u32 = 0x0006_9002;
    pub const MSG_PROPS: u32 = 0x0006_9003;
    pub const RECIP_TABLE: u32 = 0x0006_9004;
    pub const ATTACHMENT: u32 = 0x0006_9005;
    pub const TNEF_VERSION: u32 = 0x0008_9006;
    pub const OEM_CODEPAGE: u32 = 0x0006_9007;
}

/// Ids of properties: MS-OXPROPS, the names without `PidTag`.
pub mod property {
    #![allow(missing_docs)]
    pub const EXPIRY_TIME: u16 = 0x0015;
    pub const IMPORTANCE: u16 = 0x0017;
    pub const MESSAGE_CLASS: u16 = 0x001A;
    pub const READ_RECEIPT_REQUESTED: u16 = 0x0029;
    pub const REPLY_TIME: u16 = 0x0030;
    pub const REPORT_TIME: u16 = 0x0032;
    pub const SENSITIVITY: u16 = 0x0036;
    pub const SUBJECT: u16 = 0x0037;
    pub const CLIENT_SUBMIT_TIME: u16 = 0x0039;
    pub const SENT_REPRESENTING_ENTRY_ID: u16 = 0x0041;
    pub const SENT_REPRESENTING_NAME: u16 = 0x0042;
    pub const ORIGINAL_SUBJECT: u16 = 0x0049;
    pub const ORIGINAL_SUBMIT_TIME: u16 = 0x004E;
    pub const REPLY_RECIPIENT_ENTRIES: u16 = 0x004F;
    pub const START_DATE: u16 = 0x0060;
    pub const END_DATE: u16 = 0x0061;
    pub const RESPONSE_REQUESTED: u16 = 0x0063;
    pub const SENT_REPRESENTING_ADDRESS_TYPE: u16 = 0x0064;
    pub const SENT_REPRESENTING_EMAIL_ADDRESS: u16 = 0x0065;
    pub const CONVERSATION_TOPIC: u16 = 0x0070;
    pub const CONVERSATION_INDEX: u16 = 0x0071;
    pub const ORIGINAL_DISPLAY_TO: u16 = 0x0074;
    pub const TRANSPORT_MESSAGE_HEADERS: u16 = 0x007D;
    pub const RECIPIENT_TYPE: u16 = 0x0C15;
    pub const SENDER_ENTRY_ID: u16 = 0x0C19;
    pub const SENDER_NAME: u16 = 0x0C1A;
    pub const SUPPLEMENTARY_INFO: u16 = 0x0C1B;
    pub const SENDER_ADDRESS_TYPE: u16 = 0x0C1E;
    pub const SENDER_EMAIL_ADDRESS: u16 = 0x0C1F;
    pub const DISPLAY_CC: u16 = 0x0E03;
    pub const DISPLAY_TO: u16 = 0x0E04;
    pub const MESSAGE_DELIVERY_TIME: u16 = 0x0E06;
    pub const NORMALIZED_SUBJECT: u16 = 0x0E1D;
    pub const ENTRY_ID: u16 = 0x0FFF;
    pub const BODY: u16 = 0x1000;
    pub const REPORT_TEXT: u16 = 0x1001;
    pub const RTF_COMPRESSED: u16 = 0x1009;
    pub const HTML: u16 = 0x1013;
    pub const INTERNET_MESSAGE_ID: u16 = 0x1035;
    pub const INTERNET_REFERENCES: u16 = 0x1039;
    pub const IN_REPLY_TO_ID: u16 = 0x1042;
    pub const LIST_HELP: u16 = 0x1043;
    pub const LIST_SUBSCRIBE: u16 = 0x1044;
    pub const LIST_UNSUBSCRIBE: u16 = 0x1045;
    pub const DISPLAY_NAME: u16 = 0x3001;
    pub const ADDRESS_TYPE: u16 = 0x3002;
    pub const EMAIL_ADDRESS: u16 = 0x3003;
    pub const CREATION_TIME: u16 = 0x3007;
    pub const LAST_MODIFICATION_TIME: u16 = 0x3008;
    pub const ATTACH_DATA: u16 = 0x3701;
    pub const ATTACH_ENCODING: u16 = 0x3702;
    pub const ATTACH_EXTENSION: u16 = 0x3703;
    pub const ATTACH_FILENAME: u16 = 0x3704;
    pub const ATTACH_METHOD: u16 = 0x3705;
    pub const ATTACH_LONG_FILENAME: u16 = 0x3707;
    pub const ATTACH_PATHNAME: u16 = 0x3708;
    pub const ATTACH_TRANSPORT_NAME: u16 = 0x370C;
    pub const ATTACH_LONG_PATHNAME: u16 = 0x370D;
    pub const ATTACH_MIME_TAG: u16 = 0x370E;
    pub const ATTACH_CONTENT_ID: u16 = 0x3712;
    pub const ATTACH_CONTENT_LOCATION: u16 = 0x3713;
    pub const TEXT_ATTACHMENT_CHARSET: u16 = 0x371B;
    pub const SMTP_ADDRESS: u16 = 0x39FE;
    pub const CALLBACK_TELEPHONE_NUMBER: u16 = 0x3A02;
    pub const GIVEN_NAME: u16 = 0x3A06;
    pub const BUSINESS_TELEPHONE_NUMBER: u16 = 0x3A08;
    pub const HOME_TELEPHONE_NUMBER: u16 = 0x3A09;
    pub const SURNAME: u16 = 0x3A11;
    pub const COMPANY_NAME: u16 = 0x3A16;
    pub const TITLE: u16 = 0x3A17;
    pub const DEPARTMENT_NAME: u16 = 0x3A18;
    pub const PRIMARY_TELEPHONE_NUMBER: u16 = 0x3A1A;
    pub const BUSINESS2_TELEPHONE_NUMBER: u16 = 0x3A1B;
    pub const MOBILE_TELEPHONE_NUMBER: u16 = 0x3A1C;
    pub const RADIO_TELEPHONE_NUMBER: u16 = 0x3A1D;
    pub const CAR_TELEPHONE_NUMBER: u16 = 0x3A1E;
    pub const OTHER_TELEPHONE_NUMBER: u16 = 0x3A1F;
    pub const PAGER_TELEPHONE_NUMBER: u16 = 0x3A21;
    pub const PRIMARY_FAX_NUMBER: u16 = 0x3A23;
    pub const BUSINESS_FAX_NUMBER: u16 = 0x3A24;
    pub const HOME_FAX_NUMBER: u16 = 0x3A25;
    pub const TELEX_NUMBER: u16 = 0x3A2C;
    pub const ISDN_NUMBER: u16 = 0x3A2D;
    pub const ASSISTANT_TELEPHONE_NUMBER: u16 = 0x3A2E;
    pub const HOME2_TELEPHONE_NUMBER: u16 = 0x3A2F;
    pub const ASSISTANT: u16 = 0x3A30;
    pub const WEDDING_ANNIVERSARY: u16 = 0x3A41;
    pub const BIRTHDAY: u16 = 0x3A42;
    pub const MIDDLE_NAME: u16 = 0x3A44;
    pub const DISPLAY_NAME_PREFIX: u16 = 0x3A45;
    pub const PROFESSION: u16 = 0x3A46;
    pub const GENERATION: u16 = 0x3A05;
    pub const SPOUSE_NAME: u16 = 0x3A48;
    /// TTY/TDD: PidTagTelecommunicationsDeviceForDeafTelephoneNumber.
    pub const TEXT_TELEPHONE_NUMBER: u16 = 0x3A4B;
    pub const MANAGER_NAME: u16 = 0x3A4E;
    pub const NICKNAME: u16 = 0x3A4F;
    pub const PERSONAL_HOME_PAGE: u16 = 0x3A50;
    pub const BUSINESS_HOME_PAGE: u16 = 0x3A51;
    pub const COMPANY_MAIN_TELEPHONE_NUMBER: u16 = 0x3A57;
    pub const HOME_ADDRESS_CITY: u16 = 0x3A59;
    pub const HOME_ADDRESS_COUNTRY: u16 = 0x3A5A;
    pub const HOME_ADDRESS_POSTAL_CODE: u16 = 0x3A5B;
    pub const HOME_ADDRESS_STATE: u16 = 0x3A5C;
    pub const HOME_ADDRESS_STREET: u16 = 0x3A5D;
    pub const OTHER_ADDRESS_CITY: u16 = 0x3A5F;
    pub const OTHER_ADDRESS_COUNTRY: u16 = 0x3A60;
    pub const OTHER_ADDRESS_POSTAL_CODE: u16 = 0x3A61;
    pub const OTHER_ADDRESS_STATE: u16 = 0x3A62;
    pub const OTHER_ADDRESS_STREET: u16 = 0x3A63;
    pub const INTERNET_CODEPAGE: u16 = 0x3FDE;
    pub const MESSAGE_CODEPAGE: u16 = 0x3FFD;
    pub const SENDER_SMTP_ADDRESS: u16 = 0x5D01;
    pub const SENT_REPRESENTING_SMTP_ADDRESS: u16 = 0x5D02;
    pub const RECIPIENT_FLAGS: u16 = 0x5FFD;
}

/// A GUID of which only the first eight bytes vary, as those of the standard property sets.
const fn standard(first: u32) -> Guid {
    let [a, b, c, d] = first.to_le_bytes();
    [a, b, c, d, 0, 0, 0, 0, 0xC0, 0, 0, 0, 0, 0, 0, 0x46]
}

/// The interface of a message inside an object property: IID_IMessage.
pub const IID_MESSAGE: Guid = standard(0x0002_0307);
/// The interface of an OLE storage inside an object property: IID_IStorage.
pub const IID_STORAGE: Guid = standard(0x0000_000B);
/// PS_PUBLIC_STRINGS.
pub const SET_PUBLIC_STRINGS: Guid = standard(0x0002_0329);
/// PS_INTERNET_HEADERS.
pub const SET_INTERNET_HEADERS: Guid = standard(0x0002_0386);
/// PSETID_Appointment.
pub const SET_APPOINTMENT: Guid = standard(0x0006_2002);
/// PSETID_Task.
pub const SET_TASK: Guid = standard(0x0006_2003);
/// PSETID_Address.
pub const SET_ADDRESS: Guid = standard(0x0006_2004);
/// PSETID_Common.
pub const SET_COMMON: Guid = standard(0x0006_2008);
/// PSETID_Meeting.
pub const SET_MEETING: Guid =
    [0x90, 0xDA, 0xD8, 0x6E, 0x0B, 0x45, 0x1B, 0x10, 0x98, 0xDA, 0x00, 0xAA, 0x00, 0x3F, 0x13, 0x05];

/// Ids of named properties: MS-OXPROPS, the names without `PidLid`. Each belongs to one set.
pub mod named {
    #![allow(missing_docs)]
    use super::{Guid, SET_ADDRESS, SET_APPOINTMENT, SET_COMMON, SET_MEETING, SET_TASK};

    pub const ATTENDEE_CRITICAL_CHANGE: (Guid, u32) = (SET_MEETING, 0x0001);
    pub const WHERE: (Guid, u32) = (SET_MEETING, 0x0002);
    pub const GLOBAL_OBJECT_ID: (Guid, u32) = (SET_MEETING, 0x0003);
    pub const IS_EXCEPTION: (Guid, u32) = (SET_MEETING, 0x000A);
    pub const START_RECURRENCE_TIME: (Guid, u32) = (SET_MEETING, 0x000E);
    pub const OWNER_CRITICAL_CHANGE: (Guid, u32) = (SET_MEETING, 0x001A);
    pub const CLEAN_GLOBAL_OBJECT_ID: (Guid, u32) = (SET_MEETING, 0x0023);
    pub const TASK_STATUS: (Guid, u32) = (SET_TASK, 0x8101);
    pub const PERCENT_COMPLETE: (Guid, u32) = (SET_TASK, 0x8102);
    pub const TASK_START_DATE: (Guid, u32) = (SET_TASK, 0x8104);
    pub const TASK_DUE_DATE: (Guid, u32) = (SET_TASK, 0x8105);
    pub const TASK_DATE_COMPLETED: (Guid, u32) = (SET_TASK, 0x810F);
    pub const APPOINTMENT_SEQUENCE: (Guid, u32) = (SET_APPOINTMENT, 0x8201);
    pub const BUSY_STATUS: (Guid, u32) = (SET_APPOINTMENT, 0x8205);
    pub const LOCATION: (Guid, u32) = (SET_APPOINTMENT, 0x8208);
    pub const APPOINTMENT_START_WHOLE: (Guid, u32) = (SET_APPOINTMENT, 0x820D);
    pub const APPOINTMENT_END_WHOLE: (Guid, u32) = (SET_APPOINTMENT, 0x820E);
    pub const APPOINTMENT_SUB_TYPE: (Guid, u32) = (SET_APPOINTMENT, 0x8215);
    pub const APPOINTMENT_RECUR: (Guid, u32) = (SET_APPOINTMENT, 0x8216);
    pub const RECURRING: (Guid, u32) = (SET_APPOINTMENT, 0x8223);
    pub const INTENDED_BUSY_STATUS: (Guid, u32) = (SET_APPOINTMENT, 0x8224);
    pub const EXCEPTION_REPLACE_TIME: (Guid, u32) = (SET_APPOINTMENT, 0x8228);
    pub const TIME_ZONE_STRUCT: (Guid, u32) = (SET_APPOINTMENT, 0x8233);
    pub const PROPOSED_START_WHOLE: (Guid, u32) = (SET_APPOINTMENT, 0x8250);
    pub const PROPOSED_END_WHOLE: (Guid, u32) = (SET_APPOINTMENT, 0x8251);
    pub const COUNTER_PROPOSAL: (Guid, u32) = (SET_APPOINTMENT, 0x8257);
    pub const TIME_ZONE_DEFINITION_START: (Guid, u32) = (SET_APPOINTMENT, 0x825E);
    pub const TIME_ZONE_DEFINITION_RECUR: (Guid, u32) = (SET_APPOINTMENT, 0x8260);
    pub const REMINDER_DELTA: (Guid, u32) = (SET_COMMON, 0x8501);
    pub const REMINDER_SET: (Guid, u32) = (SET_COMMON, 0x8503);
    pub const TASK_GLOBAL_ID: (Guid, u32) = (SET_COMMON, 0x8519);
    pub const FLAG_REQUEST: (Guid, u32) = (SET_COMMON, 0x8530);
    pub const WORK_ADDRESS_STREET: (Guid, u32) = (SET_ADDRESS, 0x8045);
    pub const WORK_ADDRESS_CITY: (Guid, u32) = (SET_ADDRESS, 0x8046);
    pub const WORK_ADDRESS_STATE: (Guid, u32) = (SET_ADDRESS, 0x8047);
    pub const WORK_ADDRESS_POSTAL_CODE: (Guid, u32) = (SET_ADDRESS, 0x8048);
    pub const WORK_ADDRESS_COUNTRY: (Guid, u32) = (SET_ADDRESS, 0x8049);
    pub const DISTRIBUTION_LIST_ONE_OFF_MEMBERS: (Guid, u32) = (SET_ADDRESS, 0x8054);
    pub const INSTANT_MESSAGING_ADDRESS: (Guid, u32) = (SET_ADDRESS, 0x8062);
    pub const EMAIL1_ADDRESS_TYPE: (Guid, u32) = (SET_ADDRESS, 0x8082);
    pub const EMAIL1_EMAIL_ADDRESS: (Guid, u32) = (SET_ADDRESS, 0x8083);
    pub const EMAIL1_ORIGINAL_DISPLAY_NAME: (Guid, u32) = (SET_ADDRESS, 0x8084);
    pub const EMAIL2_ADDRESS_TYPE: (Guid, u32) = (SET_ADDRESS, 0x8092);
    pub const EMAIL2_EMAIL_ADDRESS: (Guid, u32) = (SET_ADDRESS, 0x8093);
    pub const EMAIL2_ORIGINAL_DISPLAY_NAME: (Guid, u32) = (SET_ADDRESS, 0x8094);
    pub const EMAIL3_ADDRESS_TYPE: (Guid, u32) = (SET_ADDRESS, 0x80A2);
    pub const EMAIL3_EMAIL_ADDRESS: (Guid, u32) = (SET_ADDRESS, 0x80A3);
    pub const EMAIL3_ORIGINAL_DISPLAY_NAME: (Guid, u32) = (SET_ADDRESS, 0x80A4);
}
