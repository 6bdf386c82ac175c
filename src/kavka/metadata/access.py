"""The ACLs of the metadata, followed from image to image."""

from __future__ import annotations

from collections.abc import Hashable

from kavka.metadata.image import MetadataImage
from kavka.metadata.image.persistent import PersistentMap
from kavka.metadata.records.security import AccessControlEntryRecord
from kavka.security.acl import Acl, Acls


def acl_of(record: AccessControlEntryRecord) -> Acl:
    """The ACL of a record."""
    return Acl(
        record.resource_type,
        record.resource_name,
        record.pattern_type,
        record.operation,
        record.principal,
        record.host,
        record.permission_type,
    )


class AccessRules:
    """The ACLs in force; following costs what has changed, and now and then one look at each ACL."""

    def __init__(self) -> None:
        self.acls = Acls()
        self._known: PersistentMap[Hashable, AccessControlEntryRecord] = PersistentMap()

    def follow(self, image: MetadataImage) -> bool:
        """Take over an image's ACLs; whether they are others than before."""
        known, now = self._known, image.security.acls
        if now is known:
            return False
        ids = now.differing(known)
        before = [(known.get(id_), now.get(id_)) for id_ in ids]
        changes = [(old, new) for old, new in before if old is not new]
        for old, _ in changes:
            if old is not None:
                self.acls.remove(acl_of(old))
        for _, new in changes:
            if new is not None:
                self.acls.add(acl_of(new))
        self._known = now
        return True
