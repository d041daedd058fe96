//! Types as the kernel and an object file describe them (BTF, `Documentation/bpf/btf.rst`): which of the kernel's
//! types an object needs. Pure.
//!
//! A kernel has more than 100,000 of them, and an object names a dozen: to parse all costs as much as to arm some
//! thousand sockets.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
};

use crate::netlink::u32_at;

/// `struct btf_header`
const HEADER: usize = 24;
/// Its `magic`
const MAGIC: [u8; 2] = 0xeb9f_u16.to_ne_bytes();
/// `struct btf_type`: name, kind with a count, and size or type.
const TYPE: usize = 3;
/// `struct btf_member`: name, type, offset.
const MEMBER: usize = 3;

/// `BTF_KIND_…` (`include/uapi/linux/btf.h`)
mod kind {
    pub(super) const INT: u32 = 1;
    pub(super) const PTR: u32 = 2;
    pub(super) const ARRAY: u32 = 3;
    pub(super) const STRUCT: u32 = 4;
    pub(super) const UNION: u32 = 5;
    pub(super) const ENUM: u32 = 6;
    pub(super) const FWD: u32 = 7;
    pub(super) const TYPEDEF: u32 = 8;
    pub(super) const VOLATILE: u32 = 9;
    pub(super) const CONST: u32 = 10;
    pub(super) const RESTRICT: u32 = 11;
    pub(super) const FUNC: u32 = 12;
    pub(super) const FUNC_PROTO: u32 = 13;
    pub(super) const VAR: u32 = 14;
    pub(super) const DATASEC: u32 = 15;
    pub(super) const FLOAT: u32 = 16;
    pub(super) const DECL_TAG: u32 = 17;
    pub(super) const TYPE_TAG: u32 = 18;
    pub(super) const ENUM64: u32 = 19;
}

/// Everything in them is words of 32 bits.
type Word = [u8; 4];

/// All types of one source.
#[derive(Debug)]
pub(super) struct Types {
    bytes: Vec<u8>,
    words: Range<usize>,
    strings: Range<usize>,
    /// The word that each starts with. Their ids count from 1; 0 is `void`.
    starts: Vec<u32>,
}

impl Types {
    /// `None`: they are cut short, or of a kind that this does not know.
    pub(super) fn parse(bytes: Vec<u8>) -> Option<Self> {
        let header: &[u8; HEADER] = bytes.first_chunk().filter(|it| it.starts_with(&MAGIC))?;
        let field = |at| u32_at(header, at) as usize;
        let section = |at| {
            let start = field(4).checked_add(field(at))?;
            let end = start.checked_add(field(at + 4))?;
            (end <= bytes.len()).then_some(start..end)
        };
        let (words, strings) = (section(8)?, section(16)?);
        let all = bytes[words.clone()].as_chunks().0;
        let mut starts = Vec::new();
        let mut at = 0;
        while at < all.len() {
            starts.push(u32::try_from(at).ok()?);
            at += Type::first(&all[at..])?.0.len();
        }
        Some(Self { bytes, words, strings, starts })
    }

    /// The id of the function `name`.
    pub(super) fn function(&self, name: &str) -> Option<u32> {
        let is_it =
            |ty: Type<'_>| ty.kind() == kind::FUNC && self.name(ty.word(0)) == name.as_bytes();
        self.each().find(|(_, ty)| is_it(*ty)).map(|(id, _)| id)
    }

    /// As BTF: the structures and unions that `object` names, and what they consist of. Pointers are to `void`,
    /// enumerations without values. Ids are others than here.
    pub(super) fn needed_by(&self, object: &Self) -> Option<Vec<u8>> {
        let named: HashSet<&[u8]> = object.composite().map(|(_, name)| name).collect();
        let mut part = Part { of: self, new: HashMap::new(), old: Vec::new(), strings: vec![0] };
        for (id, _) in self.composite().filter(|(_, name)| named.contains(name)) {
            part.id(id);
        }
        part.bytes()
    }

    /// Structures and unions with a name.
    fn composite(&self) -> impl Iterator<Item = (u32, &[u8])> {
        let are = self.each().filter(|(_, ty)| matches!(ty.kind(), kind::STRUCT | kind::UNION));
        are.map(|(id, ty)| (id, self.name(ty.word(0)))).filter(|(_, name)| !name.is_empty())
    }

    fn each(&self) -> impl Iterator<Item = (u32, Type<'_>)> {
        (1..).zip(&self.starts).filter_map(|(id, &start)| Some((id, self.at(start)?)))
    }

    fn get(&self, id: u32) -> Option<Type<'_>> {
        self.at(*self.starts.get((id as usize).checked_sub(1)?)?)
    }

    fn at(&self, start: u32) -> Option<Type<'_>> {
        Type::first(self.bytes[self.words.clone()].as_chunks().0.get(start as usize..)?)
    }

    /// Empty where there is none.
    fn name(&self, at: u32) -> &[u8] {
        let from = self.bytes[self.strings.clone()].get(at as usize..).unwrap_or_default();
        from.split(|&byte| byte == 0).next().unwrap_or_default()
    }
}

/// One type, whole.
#[derive(Clone, Copy)]
struct Type<'a>(&'a [Word]);

impl<'a> Type<'a> {
    fn first(words: &'a [Word]) -> Option<Self> {
        let head = Self(words.get(..TYPE)?);
        let more = match head.kind() {
            kind::INT | kind::VAR | kind::DECL_TAG => 1,
            kind::ARRAY => 3,
            kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => 3 * head.count(),
            kind::ENUM | kind::FUNC_PROTO => 2 * head.count(),
            kind::PTR..=kind::TYPE_TAG => 0,
            _ => return None,
        };
        words.get(..TYPE + more).map(Self)
    }

    fn word(self, at: usize) -> u32 {
        u32::from_ne_bytes(self.0[at])
    }

    fn kind(self) -> u32 {
        self.word(1) >> 24 & 0x1f
    }

    fn count(self) -> usize {
        (self.word(1) & 0xffff) as usize
    }
}

/// Some types with what they consist of.
struct Part<'a> {
    of: &'a Types,
    /// Ids in here of the ids there, and the other way round.
    new: HashMap<u32, u32>,
    old: Vec<u32>,
    strings: Vec<u8>,
}

impl Part<'_> {
    /// Its id in here.
    fn id(&mut self, id: u32) -> u32 {
        if id == 0 {
            return 0;
        }
        *self.new.entry(id).or_insert_with(|| {
            self.old.push(id);
            u32::try_from(self.old.len()).unwrap_or(u32::MAX)
        })
    }

    fn name(&mut self, at: u32) -> u32 {
        let name = self.of.name(at);
        if name.is_empty() {
            return 0;
        }
        let new = u32::try_from(self.strings.len()).unwrap_or_default();
        self.strings.extend_from_slice(name);
        self.strings.push(0);
        new
    }

    fn bytes(mut self) -> Option<Vec<u8>> {
        let mut types = Vec::new();
        let mut next = 0;
        // Each may name others, which are added at the end.
        while let Some(&id) = self.old.get(next) {
            types.extend(self.copy(self.of.get(id)?)?.into_iter().flat_map(u32::to_ne_bytes));
            next += 1;
        }
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).ok();
        let (types_length, strings_length) = (length(&types)?, length(&self.strings)?);
        let header = u32::try_from(HEADER).ok()?;
        let mut bytes = self.of.bytes[..4].to_vec();
        for field in [header, 0, types_length, types_length, strings_length] {
            bytes.extend(u32::to_ne_bytes(field));
        }
        Some([bytes, types, self.strings].concat())
    }

    /// `None`: of a kind that no structure consists of.
    fn copy(&mut self, ty: Type<'_>) -> Option<Vec<u32>> {
        let mut words: Vec<u32> = (0..ty.0.len()).map(|at| ty.word(at)).collect();
        words[0] = self.name(words[0]);
        match ty.kind() {
            kind::INT | kind::FLOAT | kind::FWD => {}
            kind::PTR => words[2] = 0,
            kind::ENUM | kind::ENUM64 => {
                words[1] &= !0xffff;
                words.truncate(TYPE);
            }
            kind::ARRAY => {
                words[3] = self.id(words[3]);
                words[4] = self.id(words[4]);
            }
            kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::TYPE_TAG => {
                words[2] = self.id(words[2]);
            }
            kind::STRUCT | kind::UNION => {
                for member in words[TYPE..].chunks_exact_mut(MEMBER) {
                    member[0] = self.name(member[0]);
                    member[1] = self.id(member[1]);
                }
            }
            _ => return None,
        }
        Some(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source with these types and strings, as the kernel lays it out.
    fn source(types: &[u32], strings: &[u8]) -> Vec<u8> {
        let length = |n: usize| u32::try_from(n).unwrap();
        let mut bytes = MAGIC.to_vec();
        bytes.extend([1, 0]);
        let types_length = length(types.len() * 4);
        for word in [24, 0, types_length, types_length, length(strings.len())] {
            bytes.extend(u32::to_ne_bytes(word));
        }
        bytes.extend(types.iter().flat_map(|word| word.to_ne_bytes()));
        bytes.extend(strings);
        bytes
    }

    const fn head(kind: u32, count: u32) -> u32 {
        kind << 24 | count
    }

    /// `int f(); struct other { int a; }; struct it { int a; struct other *b; it_t c; enum e d; }`, and what they are
    /// made of.
    fn kernel() -> Vec<u8> {
        #[rustfmt::skip]
        let types = [
            1, head(kind::INT, 0), 4, 32,                     // 1: int
            0, head(kind::FUNC_PROTO, 0), 1,                  // 2
            5, head(kind::FUNC, 0), 2,                        // 3: f
            7, head(kind::STRUCT, 1), 4, 13, 1, 0,            // 4: other
            0, head(kind::PTR, 0), 4,                         // 5
            15, head(kind::TYPEDEF, 0), 8,                    // 6: it_t
            20, head(kind::ENUM, 1), 4, 13, 7,                // 7: e
            0, head(kind::ARRAY, 0), 0, 1, 1, 2,              // 8: int [2]
            22, head(kind::STRUCT, 4), 32, 13, 1, 0, 25, 5, 64, 27, 6, 128, 29, 7, 192, // 9: it
        ];
        source(&types, b"\0int\0f\0other\0a\0it_t\0e\0it\0b\0c\0d\0")
    }

    fn object() -> Types {
        Types::parse(source(&[1, head(kind::STRUCT, 0), 0], b"\0it\0")).unwrap()
    }

    #[test]
    fn what_an_object_names_is_taken_over_with_what_it_consists_of() {
        let kernel = Types::parse(kernel()).unwrap();
        assert_eq!(kernel.function("f"), Some(3));
        assert_eq!(kernel.function("it"), None, "no function");
        let needed = kernel.needed_by(&object()).unwrap();
        let part = Types::parse(needed).unwrap();
        let kinds: Vec<u32> = part.each().map(|(_, ty)| ty.kind()).collect();
        let all = [kind::STRUCT, kind::INT, kind::PTR, kind::TYPEDEF, kind::ENUM, kind::ARRAY];
        assert_eq!(kinds, all, "not what it points to");
        let Type(it) = part.get(1).unwrap();
        let offsets: Vec<u32> = (0..4).map(|at| u32::from_ne_bytes(it[5 + 3 * at])).collect();
        assert_eq!(offsets, [0, 64, 128, 192]);
        let names: Vec<&[u8]> =
            (0..4).map(|at| part.name(u32::from_ne_bytes(it[3 + 3 * at]))).collect();
        assert_eq!(names, [b"a", b"b", b"c", b"d"]);
    }

    #[test]
    fn types_that_are_cut_short_or_lead_nowhere_are_refused() {
        let whole = kernel();
        for length in 0..whole.len() {
            let mut short = whole.clone();
            short.truncate(length);
            assert!(Types::parse(short).is_none(), "{length} bytes");
        }
        let unknown = source(&[0, head(20, 0), 0], b"\0");
        assert!(Types::parse(unknown).is_none());
        let nowhere = source(&[1, head(kind::STRUCT, 1), 4, 0, 9, 0], b"\0it\0");
        assert!(Types::parse(nowhere).unwrap().needed_by(&object()).is_none());
    }
}
