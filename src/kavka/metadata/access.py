"""The access rules of the metadata, followed from image to image."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from kavka.metadata.image import MetadataImage
from kavka.metadata.records.security import AccessControlEntryRecord
from kavka.security.acl import Acl, Acls


def acl_of(record: AccessControlEntryRecord) -> Acl:
    """The rule that a record remembers."""
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
    """The rules in force; following costs what has changed and one look at each rule."""

    def __init__(self) -> None:
        self.acls = Acls()
        self._known: Mapping[Hashable, AccessControlEntryRecord] = {}

    def follow(self, image: MetadataImage) -> bool:
        """Take over an image's rules; whether they are others than before."""
        known, now = self._known, image.kept.acls
        if now is known:
            return False
        for id_, record in known.items():
            if now.get(id_) is not record:
                self.acls.remove(acl_of(record))
        for id_, record in now.items():
            if known.get(id_) is not record:
                self.acls.add(acl_of(record))
        self._known = now
        return True
