//! How the launcher and the server write what they tell each other: numbers, strings and lists, one after another.
//! Both are the same build, so there is no version; what does not fit is an error and never a panic.

use rustix::io::Errno;

/// Appends values.
#[derive(Debug, Default)]
pub(super) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub(super) fn number(&mut self, number: u64) -> &mut Self {
        self.bytes.extend(number.to_le_bytes());
        self
    }

    pub(super) fn string(&mut self, bytes: &[u8]) -> &mut Self {
        self.number(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
        self
    }

    pub(super) fn list<T>(&mut self, items: &[T], mut each: impl FnMut(&mut Self, &T)) -> &mut Self {
        self.number(items.len() as u64);
        for item in items {
            each(self, item);
        }
        self
    }

    pub(super) fn optional<T>(&mut self, item: Option<T>, each: impl FnOnce(&mut Self, T)) -> &mut Self {
        self.number(u64::from(item.is_some()));
        if let Some(item) = item {
            each(self, item);
        }
        self
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Takes values in the order in which they were written.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Errno> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Errno::BADMSG)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn number(&mut self) -> Result<u64, Errno> {
        let bytes = self.take(size_of::<u64>())?.try_into().map_err(|_| Errno::BADMSG)?;
        Ok(u64::from_le_bytes(bytes))
    }

    pub(super) fn small<T: TryFrom<u64>>(&mut self) -> Result<T, Errno> {
        T::try_from(self.number()?).map_err(|_| Errno::BADMSG)
    }

    pub(super) fn flag(&mut self) -> Result<bool, Errno> {
        Ok(self.number()? != 0)
    }

    pub(super) fn bytes(&mut self) -> Result<Vec<u8>, Errno> {
        let length = self.small()?;
        Ok(self.take(length)?.to_vec())
    }

    pub(super) fn text(&mut self) -> Result<String, Errno> {
        String::from_utf8(self.bytes()?).map_err(|_| Errno::BADMSG)
    }

    pub(super) fn list<T>(
        &mut self,
        mut each: impl FnMut(&mut Self) -> Result<T, Errno>,
    ) -> Result<Vec<T>, Errno> {
        let length = self.number()?;
        // Not reserved in advance: the length is only as good as the bytes that follow.
        (0..length).map(|_| each(self)).collect()
    }

    pub(super) fn optional<T>(
        &mut self,
        each: impl FnOnce(&mut Self) -> Result<T, Errno>,
    ) -> Result<Option<T>, Errno> {
        if self.flag()? { each(self).map(Some) } else { Ok(None) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let mut writer = Writer::default();
        writer.number(7).string(b"a\0b").list(&["x", ""], |writer, item| {
            writer.string(item.as_bytes());
        });
        writer.optional(Some(3_u64), |writer, item| {
            writer.number(item);
        });
        writer.optional(None::<u64>, |_, _| {});
        let bytes = writer.finish();
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.number(), Ok(7));
        assert_eq!(reader.bytes(), Ok(b"a\0b".to_vec()));
        assert_eq!(reader.list(Reader::text), Ok(vec!["x".to_owned(), String::new()]));
        assert_eq!(reader.optional(Reader::number), Ok(Some(3)));
        assert_eq!(reader.optional(Reader::number), Ok(None));
        assert_eq!(reader.number(), Err(Errno::BADMSG), "nothing is left");
    }

    #[test]
    fn a_length_beyond_the_end_is_an_error_and_takes_no_memory() {
        let bytes = u64::MAX.to_le_bytes();
        assert_eq!(Reader::new(&bytes).bytes(), Err(Errno::BADMSG));
        assert_eq!(Reader::new(&bytes).list(Reader::number), Err(Errno::BADMSG));
    }
}
