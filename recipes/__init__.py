"""Recipes: one model serving in one file, as the Modelplane manifests that `kubectl apply` would take."""

from recipes.loader import Checked, check_recipe, load_recipe
from recipes.recipe import Engine, Recipe

__all__ = ["Checked", "Engine", "Recipe", "check_recipe", "load_recipe"]
