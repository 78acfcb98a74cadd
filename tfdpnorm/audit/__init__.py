"""Attacks on trained models and on trainings: what of the claimed epsilon they can prove."""
