"""The composition root, of the lab's S3 service."""

from __future__ import annotations

from grampus.cli.composition.lab import LabSession
from grampus.lab.gateway_service import GatewayService


def lab_gateway(session: LabSession) -> GatewayService:
    return GatewayService(
        session.require_lab(),
        session.home,
        session.store,
        session.runner,
        session.images,
        session.fleet(),
        session.clock,
        session.progress,
    )
