//! The contract's messages as JSON: protobuf's own mapping, with the names of the `.proto` files, 64-bit numbers as
//! numbers, and every field that has a value present. Output is text where it is valid UTF-8 (`text`), else base64
//! (`data`).

use std::sync::OnceLock;

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions};
use serde_json::Value;
use serde_json::value::Serializer;

use super::failure::Failure;
use crate::grpc::pb;

/// `message` of the type `name` of `unified_exec.v1`.
pub(super) fn value(name: &str, message: &impl Message) -> Result<Value, Failure> {
    let unknown = || Failure::new(format!("the contract has no message {name}; this is a defect of uexec"));
    let descriptor = pool()
        .and_then(|pool| pool.get_message_by_name(&format!("unified_exec.v1.{name}")))
        .ok_or_else(unknown)?;
    let dynamic =
        DynamicMessage::decode(descriptor, message.encode_to_vec().as_slice()).map_err(|_| unknown())?;
    let options = SerializeOptions::new()
        .use_proto_field_name(true)
        .stringify_64_bit_integers(false)
        .skip_default_fields(false);
    Ok(dynamic.serialize_with_options(Serializer, &options)?)
}

fn pool() -> Option<&'static DescriptorPool> {
    static POOL: OnceLock<Option<DescriptorPool>> = OnceLock::new();
    POOL.get_or_init(|| DescriptorPool::decode(pb::DESCRIPTORS).ok()).as_ref()
}

/// Prints one document.
pub(super) fn print(value: &Value) -> Result<(), Failure> {
    super::output::print(&format!("{value:#}\n"))
}

/// Prints one line of a stream.
pub(super) fn print_line(value: &Value) -> Result<(), Failure> {
    super::output::print(&format!("{value}\n"))
}

/// A frame of output; its bytes are `text` where they are valid UTF-8, else `data` in base64.
pub(super) fn output(frame: &pb::Output) -> Result<Value, Failure> {
    let mut value = value("Output", frame)?;
    if let (Ok(text), Some(fields)) = (std::str::from_utf8(&frame.data), value.as_object_mut()) {
        fields.remove("data");
        fields.insert("text".to_owned(), text.into());
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_the_contracts_names() {
        let exit = pb::Exit { status: Some(pb::exit::Status::Code(0)), ..Default::default() };
        let process =
            pb::Process { process_id: 1234, stdin_committed: 7, exit: Some(exit), ..Default::default() };
        let value = value("Process", &process).expect("known");
        assert_eq!(value["process_id"], 1234);
        assert_eq!(value["stdin_committed"], 7);
        assert_eq!(value["tty"], false);
        assert_eq!(value["state"], "PROCESS_STATE_UNSPECIFIED");
        assert_eq!(value["exit"]["code"], 0);
        assert!(value["exit"].get("signal").is_none());
    }

    #[test]
    fn output_is_text_if_it_can_be() {
        let frame =
            |data: &'static [u8]| pb::Output { data: bytes::Bytes::from_static(data), ..Default::default() };
        assert_eq!(output(&frame(b"hi\n")).expect("known")["text"], "hi\n");
        assert_eq!(output(&frame(b"\xff")).expect("known")["data"], "/w==");
    }
}
