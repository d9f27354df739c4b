//! Elements of SVG, written the same way every time.

use std::io;

use quick_xml::Writer;
use quick_xml::events::BytesText;

pub(crate) type Xml = Writer<Vec<u8>>;

/// A number with at most one decimal, always written the same way.
pub(crate) fn n(number: f64) -> String {
    let text = format!("{number:.1}");
    let short = text.strip_suffix(".0").unwrap_or(&text);
    if short == "-0" { "0".to_owned() } else { short.to_owned() }
}

pub(crate) fn empty(xml: &mut Xml, name: &str, attributes: &[(&str, &str)]) -> io::Result<()> {
    xml.create_element(name).with_attributes(attributes.iter().copied()).write_empty()?;
    Ok(())
}

pub(crate) fn words(xml: &mut Xml, name: &str, attributes: &[(&str, &str)], text: &str) -> io::Result<()> {
    xml.create_element(name)
        .with_attributes(attributes.iter().copied())
        .write_text_content(BytesText::new(text))?;
    Ok(())
}

pub(crate) fn path(xml: &mut Xml, class: &str, d: &str) -> io::Result<()> {
    empty(xml, "path", &[("class", class), ("d", d)])
}

pub(crate) fn rect(xml: &mut Xml, class: &str, x: f64, y: f64, width: f64, height: f64) -> io::Result<()> {
    let (x, y, width, height) = (n(x), n(y), n(width), n(height));
    empty(xml, "rect", &[("class", class), ("x", &x), ("y", &y), ("width", &width), ("height", &height)])
}

pub(crate) fn write(xml: &mut Xml, class: &str, x: f64, y: f64, text: &str) -> io::Result<()> {
    words(xml, "text", &[("class", class), ("x", &n(x)), ("y", &n(y))], text)
}
