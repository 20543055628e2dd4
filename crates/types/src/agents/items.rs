//! Lists of what a session knows: short ones that change, and long ones that only grow.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::ObjectId;

/// Something with an id of its own within its session.
pub trait Item {
    /// The id.
    fn id(&self) -> &str;
}

/// Items that are looked up by id and change, in the order in which they came. Copies share them.
#[derive(Debug, Clone)]
pub struct Items<T> {
    items: Vec<Arc<T>>,
    places: HashMap<String, usize>,
}

impl<T> Default for Items<T> {
    fn default() -> Self {
        Self { items: Vec::new(), places: HashMap::new() }
    }
}

impl<T: PartialEq> PartialEq for Items<T> {
    fn eq(&self, other: &Self) -> bool {
        self.items == other.items
    }
}

impl<T: Item + Clone> Items<T> {
    /// The item with this id.
    pub fn get(&self, id: &str) -> Option<&T> {
        self.places.get(id).map(|place| &*self.items[*place])
    }

    /// The item with this id, to be changed.
    pub fn get_mut(&mut self, id: &str) -> Option<&mut T> {
        self.places.get(id).map(|place| Arc::make_mut(&mut self.items[*place]))
    }

    /// Adds an item; one with its id is replaced.
    pub fn add(&mut self, item: T) {
        if let Some(known) = self.get_mut(item.id()) {
            *known = item;
            return;
        }
        self.places.insert(item.id().to_owned(), self.items.len());
        self.items.push(Arc::new(item));
    }

    /// Takes an item out.
    pub fn remove(&mut self, id: &str) -> Option<Arc<T>> {
        let place = self.places.remove(id)?;
        let item = self.items.remove(place);
        self.places.values_mut().filter(|other| **other > place).for_each(|other| *other -= 1);
        Some(item)
    }

    /// All of them, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + ExactSizeIterator {
        self.items.iter().map(|item| &**item)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

impl<T: Serialize> Serialize for Items<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.items.iter().map(|item| &**item))
    }
}

impl<'de, T: Item + Clone + Deserialize<'de>> Deserialize<'de> for Items<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut items = Self::default();
        for item in Vec::<T>::deserialize(deserializer)? {
            items.add(item);
        }
        Ok(items)
    }
}

/// A list as answers show it. Copies share the items.
#[derive(Debug, Clone, PartialEq)]
pub struct List<T>(Vec<Arc<T>>);

impl<T> List<T> {
    /// The items, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + ExactSizeIterator {
        self.0.iter().map(|item| &**item)
    }

    /// The same with these after them.
    #[must_use]
    pub fn then(mut self, more: &Items<T>) -> Self {
        self.0.extend(more.items.iter().cloned());
        self
    }
}

impl<T> From<&Items<T>> for List<T> {
    fn from(items: &Items<T>) -> Self {
        Self(items.items.clone())
    }
}

impl<T> From<&Long<T>> for List<T> {
    fn from(items: &Long<T>) -> Self {
        Self(items.recent.clone())
    }
}

impl<T: Serialize> Serialize for List<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

/// A part of a long list that is kept in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// The object: a JSON array of the items.
    pub id: ObjectId,
    /// How many there are in it.
    pub count: u64,
}

/// A list that only grows: its older part in the store, its newest items here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound(serialize = "T: Serialize", deserialize = "T: Deserialize<'de>"))]
pub struct Long<T> {
    /// The older part, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stored: Vec<Segment>,
    /// The newest items.
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    #[serde(with = "shared")]
    pub recent: Vec<Arc<T>>,
}

impl<T> Default for Long<T> {
    fn default() -> Self {
        Self { stored: Vec::new(), recent: Vec::new() }
    }
}

impl<T> Long<T> {
    /// Adds an item at the end.
    pub fn push(&mut self, item: T) {
        self.recent.push(Arc::new(item));
    }

    /// How many items there are.
    pub fn len(&self) -> u64 {
        self.stored_count() + self.recent.len() as u64
    }

    /// How many of them are not here.
    pub fn stored_count(&self) -> u64 {
        self.stored.iter().map(|segment| segment.count).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The newest items that are here, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + ExactSizeIterator {
        self.recent.iter().map(|item| &**item)
    }
}

/// `Arc`s in JSON are what they hold.
mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<T: Serialize, S: Serializer>(
        items: &[Arc<T>],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(items.iter().map(|item| &**item))
    }

    pub fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<Arc<T>>, D::Error> {
        Ok(Vec::<T>::deserialize(from)?.into_iter().map(Arc::new).collect())
    }
}
